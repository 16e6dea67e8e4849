// Windows of traffic as a network would give them, for what paths can carry.
#pragma once

#include <memory>
#include <vector>

#include "paths/capacity.h"

namespace r2cc {

struct Feed {
  std::vector<std::unique_ptr<Path>> paths;
  Capacities capacities;
  int64_t now = msToNs(1000);
  explicit Feed(int count) {
    for (int i = 0; i < count; i++) {
      paths.push_back(std::make_unique<Path>(static_cast<uint8_t>(i), static_cast<uint8_t>(i), PathUse::Data));
    }
    (void)capacities.close(paths, now);
  }
  bool clocked = false;
  /// One window in which every path was busy for `busy` of it at `rate` bytes a ns; the last one for `last`.
  size_t window(const std::vector<double>& rates, double busy = 0.9, double last = -1) {
    now += kWindowNs;
    for (size_t i = 0; i < rates.size(); i++) {
      const double part = last >= 0 && i + 1 == rates.size() ? last : busy;
      const auto ns = static_cast<int64_t>(part * static_cast<double>(kWindowNs));
      capacities.add(*paths[i], static_cast<uint64_t>(rates[i] * static_cast<double>(ns)), ns, clocked);
    }
    return capacities.close(paths, now).size();
  }
};

}  // namespace r2cc
