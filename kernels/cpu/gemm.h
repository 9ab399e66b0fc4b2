// Matrix products: the one seam between our kernels and a library.
//
// oneDNN computes them where the build has it and its implementation keeps all scratch in the
// buffer we hand it (the `brg` ones do; `gemm:jit` allocates behind one's back).  Everything else
// goes to Eigen, whose packed panels we likewise place in the workspace.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace olm2::cpu {

// C (+)= op(A) op(B) [+ bias], all row-major without gaps:
//   A  (m, k), or (k, m) if transpose_a;  B  (k, n), or (n, k) if transpose_b;  C  (m, n)
//   bias (n), added to every row;  accumulate: C holds what is added to.
struct ProductShape {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  bool accumulate = false;
  bool bias = false;
};

// A prepared product; it always gives the same bits for the same numbers.
class Product {
 public:
  virtual ~Product() = default;
  virtual std::string_view implementation() const = 0;  // "eigen", "brg:avx512_core"
  virtual int64_t workspace_bytes() const = 0;
  // `bias` is read only if the shape has one.  Nothing overlaps; `workspace` is aligned to 64
  // bytes.  The bits may depend on the remainders of the other addresses by 64, on nothing else.
  virtual void run(const float* a, const float* b, const float* bias, float* c,
                   void* workspace) = 0;
};

// `threads` > 0.  Throws Error for a size that is not positive.
std::unique_ptr<Product> make_product(const ProductShape& shape, int threads, bool use_onednn);

// The two sides of the seam.
std::unique_ptr<Product> make_eigen_product(const ProductShape& shape, int threads);
// Null: not in this build, or this product would allocate.
std::unique_ptr<Product> make_onednn_product(const ProductShape& shape, int threads);
// "oneDNN 2.6.3, AVX-512"; empty if the build has none.
std::string onednn_description();

}  // namespace olm2::cpu
