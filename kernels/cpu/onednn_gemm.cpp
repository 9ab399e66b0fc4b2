// Matrix products by oneDNN's matmul primitive.
//
// Plain row-major layouts on both sides (pre-blocked weights gained nothing on GPT-2's shapes).
// Accumulation is the `sum` post-operation.  The scratchpad is ours: `scratchpad_mode::user`.
#include "kernels/cpu/gemm.h"

#ifdef OLM2_HAS_ONEDNN

#include <string>
#include <unordered_map>

#include <dnnl.hpp>

#include "core/error.h"
#include "kernels/cpu/threads.h"

namespace olm2::cpu {
namespace {

// oneDNN takes the number of threads from OpenMP, both when preparing and when running.
class ThreadScope {
 public:
  explicit ThreadScope([[maybe_unused]] int threads) {
#ifdef _OPENMP
    before_ = omp_get_max_threads();
    if (before_ != threads) omp_set_num_threads(threads);
#endif
  }
  ~ThreadScope() {
#ifdef _OPENMP
    if (before_ != omp_get_max_threads()) omp_set_num_threads(before_);
#endif
  }
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  int before_ = 1;
};

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::memory::desc describe(int64_t rows, int64_t columns, bool transposed) {
  const dnnl::memory::dims strides =
      transposed ? dnnl::memory::dims{1, rows} : dnnl::memory::dims{columns, 1};
  return {{rows, columns}, dnnl::memory::data_type::f32, strides};
}

dnnl::matmul::primitive_desc plan_product(const ProductShape& shape) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (shape.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum();
    attributes.set_post_ops(sum);
  }
  const auto a = describe(shape.m, shape.k, shape.transpose_a);
  const auto b = describe(shape.k, shape.n, shape.transpose_b);
  const auto c = describe(shape.m, shape.n, false);
  const auto bias = describe(1, shape.n, false);
  const dnnl::matmul::desc product =
      shape.bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
  return {product, attributes, cpu_engine()};
}

bool keeps_scratch_in_its_pad(std::string_view implementation) {
  return implementation.starts_with("brg");
}

class OnednnProduct : public Product {
 public:
  OnednnProduct(const dnnl::matmul::primitive_desc& plan, int threads)
      : threads_(threads),
        implementation_(plan.impl_info_str()),
        workspace_bytes_(static_cast<int64_t>(plan.scratchpad_desc().get_size())),
        primitive_(plan),
        stream_(cpu_engine()),
        a_(plan.src_desc(), cpu_engine(), DNNL_MEMORY_NONE),
        b_(plan.weights_desc(), cpu_engine(), DNNL_MEMORY_NONE),
        bias_(plan.bias_desc(), cpu_engine(), DNNL_MEMORY_NONE),
        c_(plan.dst_desc(), cpu_engine(), DNNL_MEMORY_NONE),
        scratch_(plan.scratchpad_desc(), cpu_engine(), DNNL_MEMORY_NONE),
        arguments_{{DNNL_ARG_SRC, a_}, {DNNL_ARG_WEIGHTS, b_}, {DNNL_ARG_DST, c_}} {
    if (plan.bias_desc().get_size() > 0) arguments_.emplace(DNNL_ARG_BIAS, bias_);
    if (workspace_bytes_ > 0) arguments_.emplace(DNNL_ARG_SCRATCHPAD, scratch_);
  }

  std::string_view implementation() const override { return implementation_; }
  int64_t workspace_bytes() const override { return workspace_bytes_; }

  void run(const float* a, const float* b, const float* bias, float* c, void* workspace) override {
    const ThreadScope scope(threads_);
    // oneDNN's handles are not const; it writes C and the scratchpad only.
    const auto handle = [](const float* data) {
      return const_cast<float*>(data);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    };
    a_.set_data_handle(handle(a));
    b_.set_data_handle(handle(b));
    bias_.set_data_handle(handle(bias));
    c_.set_data_handle(c);
    scratch_.set_data_handle(workspace);
    primitive_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  int threads_;
  std::string implementation_;
  int64_t workspace_bytes_;
  dnnl::matmul primitive_;
  dnnl::stream stream_;
  dnnl::memory a_;
  dnnl::memory b_;
  dnnl::memory bias_;
  dnnl::memory c_;
  dnnl::memory scratch_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

}  // namespace

std::unique_ptr<Product> make_onednn_product(const ProductShape& shape, int threads) {
  try {
    const ThreadScope scope(threads);
    const dnnl::matmul::primitive_desc plan = plan_product(shape);
    if (!keeps_scratch_in_its_pad(plan.impl_info_str())) return nullptr;
    return std::make_unique<OnednnProduct>(plan, threads);
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented) return nullptr;
    throw Error("oneDNN refused a matrix product: " + std::string(error.what()));
  }
}

std::string onednn_description() {
  const dnnl_version_t* version = dnnl_version();
  std::string text = "oneDNN " + std::to_string(version->major) + "." +
                     std::to_string(version->minor) + "." + std::to_string(version->patch);
  const auto isa = dnnl::get_effective_cpu_isa();
  const auto has = [&](dnnl::cpu_isa least) {
    return (static_cast<unsigned>(isa) & static_cast<unsigned>(least)) ==
           static_cast<unsigned>(least);
  };
  if (has(dnnl::cpu_isa::avx512_core)) return text + ", AVX-512";
  if (has(dnnl::cpu_isa::avx2)) return text + ", AVX2";
  return text + ", SSE4.1";
}

}  // namespace olm2::cpu

#else

namespace olm2::cpu {

std::unique_ptr<Product> make_onednn_product(const ProductShape&, int) {
  return nullptr;
}
std::string onednn_description() {
  return {};
}

}  // namespace olm2::cpu

#endif
