// Sixteen floats at a time.
//
// `Vec` is a compiler vector: one AVX-512 register, two of AVX2, four of SSE.  It has 16 lanes on
// every machine, so sums are taken in the same order everywhere.  Loads and stores are unaligned:
// lanes are counted from the start of a row, never from an address.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace olm2::cpu {

inline constexpr int64_t kLanes = 16;
using Vec = float __attribute__((vector_size(64)));
using IntVec = int32_t __attribute__((vector_size(64)));

// How many lanes of a Vec hold elements of the row: all, or the first few at its end.
struct Whole {};
struct Part {
  int64_t lanes = 0;
};

// Calls body(index of the first element, Whole or Part) along a row of `count` elements.
template <typename Body>
inline void for_each_vec(int64_t count, const Body& body) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) body(i, Whole{});
  if (i < count) body(i, Part{count - i});
}

inline Vec broadcast(float x) {
  return x - Vec{};
}
inline Vec load(const float* from, Whole = {}) {
  Vec v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
inline Vec load(const float* from, Whole, float) {
  return load(from);
}
// The lanes behind the end of the row get `otherwise`.
inline Vec load(const float* from, Part part, float otherwise = 0.0F) {
  Vec v = broadcast(otherwise);
  for (int64_t i = 0; i < part.lanes; ++i) v[i] = from[i];
  return v;
}
inline void store(float* to, Vec v, Whole = {}) {
  std::memcpy(to, &v, sizeof v);
}
inline void store(float* to, Vec v, Part part) {
  for (int64_t i = 0; i < part.lanes; ++i) to[i] = v[i];
}

inline Vec max(Vec a, Vec b) {
  return a > b ? a : b;
}
inline Vec min(Vec a, Vec b) {
  return a < b ? a : b;
}

inline Vec sqrt(Vec v) {
  for (int64_t i = 0; i < kLanes; ++i) v[i] = std::sqrt(v[i]);
  return v;
}

// Over the lanes, in halves: ((l0+l8)+(l4+l12))+...
inline float sum(Vec v) {
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) v[i] += v[i + half];
  }
  return v[0];
}
inline float max(Vec v) {
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) v[i] = v[i] > v[i + half] ? v[i] : v[i + half];
  }
  return v[0];
}

// e^x to 2 units in the last place; 0 below -87.3, and e^88 above 88.  NaN stays NaN.
// x = n ln 2 + r with |r| <= ln(2) / 2; e^r by its Taylor polynomial of degree 7, whose next term
// is below 6e-9.  Source: Cody and Waite 1980, chapter 6 (the reduction with ln 2 in two parts).
inline Vec exp(Vec x) {
  constexpr float kLowest = -87.3F;
  constexpr float kHighest = 88.0F;
  constexpr float kRounder = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer.
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  const Vec clamped = x > kHighest ? broadcast(kHighest) : x;
  const Vec shifted = clamped * 1.44269504F + kRounder;
  const Vec n = shifted - kRounder;
  const Vec r = (clamped - n * kLn2High) - n * kLn2Low;
  Vec p = r * (1.0F / 5040) + (1.0F / 720);
  p = p * r + (1.0F / 120);
  p = p * r + (1.0F / 24);
  p = p * r + (1.0F / 6);
  p = p * r + 0.5F;
  p = (p * r) * r + r + 1.0F;
  constexpr int32_t kRounderBits = std::bit_cast<int32_t>(kRounder);
  const IntVec exponent = std::bit_cast<IntVec>(shifted) - (kRounderBits - 127);
  const Vec power = std::bit_cast<Vec>(exponent << 23);
  return x < kLowest ? Vec{} : p * power;
}

}  // namespace olm2::cpu
