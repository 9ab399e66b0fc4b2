#include "data/encode_pipeline.h"

#include <memory>
#include <utility>

#include "core/error.h"

namespace olm2 {

EncodePipeline::EncodePipeline(Corpus& corpus, double val_fraction, const Tokenizer& tokenizer,
                               int workers)
    : corpus_(corpus), val_fraction_(val_fraction), max_ahead_(4 * int64_t{workers}) {
  ensure(workers > 0, "a pipeline without workers");
  for (int i = 0; i < workers; ++i) {
    threads_.emplace_back([this, mine = std::shared_ptr(tokenizer.clone())] { work(*mine); });
  }
}

EncodePipeline::~EncodePipeline() {
  {
    const std::lock_guard lock(mutex_);
    exhausted_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::optional<WorkUnit> EncodePipeline::take(int64_t& number) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return exhausted_ || taken_ - delivered_ < max_ahead_; });
  if (exhausted_) return std::nullopt;
  std::optional<WorkUnit> unit;
  number = taken_;
  try {
    unit = corpus_.next();
  } catch (...) {
    results_[taken_++].error = std::current_exception();
  }
  if (unit) {
    ++taken_;
  } else {
    exhausted_ = true;
    changed_.notify_all();
  }
  return unit;
}

void EncodePipeline::work(Tokenizer& tokenizer) {
  int64_t number = 0;
  while (const std::optional<WorkUnit> unit = take(number)) {
    Result result;
    try {
      result.unit = encode_unit(*unit, val_fraction_, tokenizer);
    } catch (...) {
      result.error = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    results_[number] = std::move(result);
    changed_.notify_all();
  }
}

std::optional<EncodedUnit> EncodePipeline::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(
      lock, [&] { return results_.contains(delivered_) || (exhausted_ && delivered_ == taken_); });
  if (!results_.contains(delivered_)) return std::nullopt;
  Result result = std::move(results_.extract(delivered_++).mapped());
  changed_.notify_all();
  if (result.error) std::rethrow_exception(result.error);
  return std::move(result.unit);
}

}  // namespace olm2
