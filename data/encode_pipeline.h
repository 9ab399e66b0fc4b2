// Workers that encode units side by side; their results in the order of the units.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "data/encode_unit.h"

namespace olm2 {

// At most a few units per worker are encoded ahead of next(), so memory does not grow with the
// corpus.  next() is for one thread.
class EncodePipeline {
 public:
  // Corpus and tokenizer must outlive the pipeline, and be left alone while it lives.
  EncodePipeline(Corpus& corpus, double val_fraction, const Tokenizer& tokenizer, int workers);
  ~EncodePipeline();
  EncodePipeline(const EncodePipeline&) = delete;
  EncodePipeline& operator=(const EncodePipeline&) = delete;

  // Waits for the next unit's result; nothing after the last one.  An exception of a unit comes
  // out here, in its turn.
  std::optional<EncodedUnit> next();

 private:
  struct Result {
    EncodedUnit unit;
    std::exception_ptr error;
  };
  void work(Tokenizer& tokenizer);
  // Waits for room, then takes the next unit under its number; nothing when there is none.
  std::optional<WorkUnit> take(int64_t& number);

  Corpus& corpus_;
  const double val_fraction_;
  const int64_t max_ahead_;

  std::mutex mutex_;  // Guards everything below.
  std::condition_variable changed_;
  std::map<int64_t, Result> results_;  // By number of unit.
  int64_t taken_ = 0;
  int64_t delivered_ = 0;
  bool exhausted_ = false;  // No more units will be taken.
  std::vector<std::thread> threads_;
};

}  // namespace olm2
