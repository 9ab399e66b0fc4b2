#include "kernels/cpu/gemm.h"

#include <string>

#include "core/error.h"

namespace olm2::cpu {

std::unique_ptr<Product> make_product(const ProductShape& shape, int threads, bool use_onednn) {
  if (shape.m <= 0 || shape.n <= 0 || shape.k <= 0) {
    throw Error("matrix product: sizes must be positive, got m=" + std::to_string(shape.m) +
                " n=" + std::to_string(shape.n) + " k=" + std::to_string(shape.k));
  }
  if (use_onednn) {
    if (std::unique_ptr<Product> product = make_onednn_product(shape, threads)) return product;
  }
  return make_eigen_product(shape, threads);
}

}  // namespace olm2::cpu
