// Work on several threads, always cut in the same way.
//
// OpenMP when the build has it, otherwise one thread.  The cut is contiguous and depends only on
// the number of threads.  No kernel but the matrix products lets the cut decide an order of
// summation, so their results do not depend on the number of threads either.
#pragma once

#include <algorithm>
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

// Calls body(unit, thread) for every unit in [0, count); whoever is free takes the next.  For units
// of uneven cost that share no result.
template <typename Body>
void parallel_units(int threads, int64_t count, const Body& body) {
#ifdef _OPENMP
  const int team = static_cast<int>(std::min<int64_t>(threads, count));
  if (team > 1) {
#pragma omp parallel for num_threads(team) schedule(dynamic, 1)
    for (int64_t unit = 0; unit < count; ++unit) body(unit, omp_get_thread_num());
    return;
  }
#else
  (void)threads;
#endif
  for (int64_t unit = 0; unit < count; ++unit) body(unit, 0);
}

}  // namespace olm2::cpu
