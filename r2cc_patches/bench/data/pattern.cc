#include "bench/data/pattern.h"

#include <cstring>

// Compiled for AVX2 as well, and chosen when the program starts. Sanitizers' runtimes are not there yet by then.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define R2CC_VECTORISED __attribute__((target_clones("avx2", "default")))
#else
#define R2CC_VECTORISED
#endif

namespace r2cc::bench {
namespace {

// splitmix64 (Steele, Lea, Flood 2014): turns seed, iteration and rank into independent keys.
uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Multiplications by odd constants and a shifted exclusive-or; one 32-bit multiplication an element when vectorised.
inline __attribute__((always_inline)) uint32_t hash11(uint32_t index, uint32_t key) {
  uint32_t x = index * 0x9E3779B1u + key;
  x ^= x >> 15;
  x *= 0x85EBCA77u;
  return x >> 21;
}

inline __attribute__((always_inline)) float valueAt(uint32_t index, uint32_t key, const Affine& form) {
  return static_cast<float>(static_cast<int32_t>(form.scale * hash11(index, key) + form.offset));
}

// Loops of constant length are what GCC's -O2 vectorises; the rest of a run is done one by one.
constexpr size_t kRun = 1024;

inline __attribute__((always_inline)) uint32_t differs(const float& have, float expected) {
  uint32_t haveBits = 0;
  uint32_t wantBits = 0;
  std::memcpy(&haveBits, &have, sizeof(haveBits));
  std::memcpy(&wantBits, &expected, sizeof(wantBits));
  return haveBits != wantBits ? 1u : 0u;
}

}  // namespace

Pattern::Pattern(uint64_t seed, int64_t iteration, int ranks) {
  const uint64_t base = mix(mix(seed) ^ static_cast<uint64_t>(iteration));
  key_ = static_cast<uint32_t>(base >> 32);
  const auto count = static_cast<uint64_t>(ranks);
  for (uint64_t rank = 0; rank < count; rank++) {
    const uint64_t place = (rank + base % count) % count;  // a rotation keeps the scales different
    const Affine form{static_cast<uint32_t>(1 + 2 * place), static_cast<uint32_t>(mix(base + rank) & 0xFFF)};
    inputs_[rank] = form;
    sum_.scale += form.scale;
    sum_.offset += form.offset;
  }
}

R2CC_VECTORISED void Pattern::fill(float* out, size_t count, uint64_t firstIndex, const Affine& form) const {
  auto first = static_cast<uint32_t>(firstIndex);
  const uint32_t key = key_;
  const Affine by = form;  // nothing that the loop writes can change it
  size_t done = 0;
  for (; done + kRun <= count; done += kRun, first += kRun) {
    for (uint32_t i = 0; i < kRun; i++) out[done + i] = valueAt(first + i, key, by);
  }
  for (; done < count; done++, first++) out[done] = valueAt(first, key, by);
}

R2CC_VECTORISED uint64_t Pattern::countWrong(const float* data, size_t count, uint64_t firstIndex,
                                             const Affine& form) const {
  auto first = static_cast<uint32_t>(firstIndex);
  const uint32_t key = key_;
  uint64_t wrong = 0;
  size_t done = 0;
  for (; done + kRun <= count; done += kRun, first += kRun) {
    uint32_t inRun = 0;
    for (uint32_t i = 0; i < kRun; i++) inRun += differs(data[done + i], valueAt(first + i, key, form));
    wrong += inRun;
  }
  for (; done < count; done++, first++) wrong += differs(data[done], valueAt(first, key, form));
  return wrong;
}

R2CC_VECTORISED void addInto(float* __restrict into, const float* __restrict from, size_t count) {
  size_t done = 0;
  for (; done + kRun <= count; done += kRun) {
    for (size_t i = 0; i < kRun; i++) into[done + i] += from[done + i];
  }
  for (; done < count; done++) into[done] += from[done];
}

}  // namespace r2cc::bench
