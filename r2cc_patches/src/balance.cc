#include "balance.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace r2cc {
namespace {

constexpr double kNegligible = 0.03;

/// Usable candidates of the nearest class that has any, the home path apart.
std::vector<size_t> nearest(const std::vector<Candidate>& candidates, size_t home) {
  std::vector<size_t> out;
  int best = INT32_MAX;
  for (size_t i = 0; i < candidates.size(); i++) {
    if (i == home || candidates[i].capacity <= 0 || candidates[i].distance > best) continue;
    if (candidates[i].distance < best) out.clear();
    best = candidates[i].distance;
    out.push_back(i);
  }
  return out;
}

}  // namespace

std::vector<double> shares(const std::vector<Candidate>& candidates, size_t home) {
  std::vector<double> out(candidates.size(), 0.0);
  if (candidates[home].capacity >= 1.0) return out[home] = 1.0, out;  // well: what NCCL chose stays
  const std::vector<size_t> others = nearest(candidates, home);
  const double own = std::max(candidates[home].demand, 1e-9);
  double demand = own;
  double capacity = candidates[home].capacity;
  for (const size_t i : others) demand += candidates[i].demand, capacity += candidates[i].capacity;
  if (capacity <= 0) return out;
  const double finish = demand / capacity;  // the time at which all are done, if the load is spread ideally
  double kept = std::min(1.0, finish * candidates[home].capacity / own);
  if (1.0 - kept < kNegligible || others.empty()) kept = 1.0;
  out[home] = kept;
  double spare = 0;
  const auto room = [&](size_t i) { return std::max(0.0, finish * candidates[i].capacity - candidates[i].demand); };
  for (const size_t i : others) spare += room(i);
  for (const size_t i : others) {
    // Others that are all overloaded themselves share by what they are worth.
    const double part = spare > 0 ? room(i) / spare : candidates[i].capacity / (capacity - candidates[home].capacity);
    out[i] = (1.0 - kept) * part;
  }
  return out;
}

std::vector<uint8_t> weights(const std::vector<double>& shares) {
  std::vector<uint8_t> out(shares.size(), 0);
  int divisor = 0;
  for (size_t i = 0; i < shares.size(); i++) {
    if (shares[i] <= 0) continue;
    // Never more than the period in all: one is kept back for every share that may have been rounded up.
    const double most = kPeriod - static_cast<double>(shares.size());
    out[i] = static_cast<uint8_t>(std::clamp(std::lround(shares[i] * most), 1L, static_cast<long>(kPeriod)));
    divisor = std::gcd(divisor, static_cast<int>(out[i]));
  }
  for (uint8_t& w : out) w = static_cast<uint8_t>(divisor > 0 ? w / divisor : 0);
  return out;
}

std::vector<uint8_t> interleave(const std::vector<uint8_t>& weights) {
  const int total = std::accumulate(weights.begin(), weights.end(), 0);
  std::vector<int> credit(weights.size(), 0);
  std::vector<uint8_t> out;
  for (int turn = 0; turn < total; turn++) {
    for (size_t i = 0; i < weights.size(); i++) credit[i] += weights[i];
    const auto next = static_cast<size_t>(std::max_element(credit.begin(), credit.end()) - credit.begin());
    credit[next] -= total;
    out.push_back(static_cast<uint8_t>(next));
  }
  return out;
}

}  // namespace r2cc
