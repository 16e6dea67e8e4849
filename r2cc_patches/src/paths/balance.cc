#include "paths/balance.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace r2cc {
namespace {

constexpr double kNegligible = 0.03;
constexpr double kSlack = 0.25;     // of a path that can carry nothing; of one that is well: none
constexpr double kNoBetter = 1e-3;  // a longer period must be closer by more
constexpr double kRounding = 1e-9;
constexpr double kHomeCounts = 1.0 / 3;  // its share leaves slack

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

/// By how much a part of so many turns is too large. What everybody waits for is the slowest: too much on the home
/// path, which is weak, costs in proportion, beyond its slack; on another it adds to what that carries anyway.
double excess(const std::vector<double>& shares, size_t i, int part, int period) {
  const double most = static_cast<double>(part) / period - shares[i];
  return i == 0 ? most / shares[i] * kHomeCounts : most;
}

/// Parts that add up to `period`, none much too large; empty where so few cannot be had.
std::vector<uint8_t> closest(const std::vector<double>& shares, int period) {
  std::vector<uint8_t> out(shares.size(), 0);
  int left = period;
  for (size_t i = 0; i < shares.size(); i++) {
    if (shares[i] <= 0) continue;
    out[i] = static_cast<uint8_t>(std::max(1.0, std::floor(shares[i] * period + kRounding)));
    left -= out[i];
  }
  const auto then = [&](size_t i) { return shares[i] > 0 ? excess(shares, i, out[i] + 1, period) : INFINITY; };
  for (; left > 0; left--) {
    size_t next = 0;
    for (size_t i = 1; i < shares.size(); i++) next = then(i) < then(next) ? i : next;
    if (shares[next] <= 0) return {};
    out[next]++;
  }
  return left < 0 ? std::vector<uint8_t>{} : out;
}

double mostExcess(const std::vector<uint8_t>& parts, const std::vector<double>& shares, int period) {
  double most = parts.empty() ? INFINITY : 0;
  for (size_t i = 0; i < parts.size(); i++) {
    if (parts[i] > 0) most = std::max(most, excess(shares, i, parts[i], period));
  }
  return most;
}

}  // namespace

double cautious(double capacity) { return capacity * (1.0 - kSlack * (1.0 - capacity)); }

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
  std::vector<uint8_t> best(shares.size(), 0);
  double worst = INFINITY;
  for (int period = 1; period <= kPeriod; period++) {
    std::vector<uint8_t> parts = closest(shares, period);
    const double most = mostExcess(parts, shares, period);
    if (most < worst - kNoBetter) worst = most, best = std::move(parts);
  }
  return best;
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
