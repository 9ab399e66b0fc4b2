// Work on several threads, always cut in the same way.
//
// OpenMP when the build has it, otherwise one thread.  The cut is contiguous and depends only on
// the number of threads.  No kernel but the matrix products lets the cut decide an order of
// summation, so their results do not depend on the number of threads either.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace olm2::cpu {

// `requested`, or for 0 as many as the machine (or OMP_NUM_THREADS) offers.
inline int thread_count(int requested) {
#ifdef _OPENMP
  return requested > 0 ? requested : omp_get_max_threads();
#else
  (void)requested;
  return 1;
#endif
}

// Calls body(begin, end, thread) on disjoint parts of [0, count).  `grain`: the least work, in
// units of count, that is worth a thread.
template <typename Body>
void parallel_for(int threads, int64_t count, int64_t grain, const Body& body) {
#ifdef _OPENMP
  const int64_t useful = std::max<int64_t>(1, count / std::max<int64_t>(1, grain));
  const int team = static_cast<int>(std::min<int64_t>(threads, useful));
  if (team > 1) {
#pragma omp parallel num_threads(team)
    {
      const int64_t parts = omp_get_num_threads();
      const int64_t part = omp_get_thread_num();
      const int64_t begin = count * part / parts;
      const int64_t end = count * (part + 1) / parts;
      if (begin < end) body(begin, end, static_cast<int>(part));
    }
    return;
  }
#else
  (void)threads;
  (void)grain;
#endif
  if (count > 0) body(int64_t{0}, count, 0);
}

// parallel_for over elements, cut at multiples of 16: a compiler may round the last, partial vector
// of a row differently, so which elements it holds must not depend on the number of threads.
template <typename Body>
void parallel_elements(int threads, int64_t count, int64_t grain, const Body& body) {
  constexpr int64_t kWidth = 16;
  const int64_t vectors = (count + kWidth - 1) / kWidth;
  parallel_for(threads, vectors, grain / kWidth, [&](int64_t begin, int64_t end, int thread) {
    body(begin * kWidth, std::min(end * kWidth, count), thread);
  });
}

// Threads that parallel_units gives work: scratch per thread is scratch for so many.
inline int64_t team_of(int threads, int64_t units) {
  return std::min<int64_t>(threads, units);
}

// Calls body(unit, thread) for every unit in [0, count); whoever is free takes the next.  For units
// of uneven cost that share no result.
template <typename Body>
void parallel_units(int threads, int64_t count, const Body& body) {
  // Not a dynamic OpenMP loop: those may allocate.
  std::atomic<int64_t> next{0};
  parallel_for(threads, team_of(threads, count), 1, [&](int64_t, int64_t, int thread) {
    for (int64_t unit = next++; unit < count; unit = next++) body(unit, thread);
  });
}

// Makes the calling thread's OpenMP team, so that no kernel has to.
inline void start_threads(int threads) {
  parallel_for(threads, threads, 1, [](int64_t, int64_t, int) {});
}

}  // namespace olm2::cpu
