// Streams of bytes through links, as a fluid: weighted max-min fair rates, which change when a stream ends or begins, a
// link's capacity changes, or a stream takes another way. No randomness, no clock. docs/internals/simulation-model.md
#pragma once

#include <limits>
#include <vector>

namespace r2cc::sim {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// What a byte of a stream puts on a link.
struct Use {
  int link = 0;
  double perByte = 0;
};

/// A pipeline is one task: its stream passes all of its edges at once.
struct Task {
  double bytes = 0;
  double weight = 1;    // of its rate, where it shares a link; above 0
  double overhead = 1;  // what carrying a byte takes of a link, in bytes: headers, gaps; 1 at least
  std::vector<Use> uses;
  std::vector<int> after;  // the tasks that it waits for
  double delayUs = 0;      // from their end, or from 0
};

struct Change {
  double atUs = 0;
  int link = 0;
  double capacity = 0;
};

/// A task that goes on another way; no effect on one that has ended.
struct Reroute {
  double atUs = 0;
  int task = 0;
  std::vector<Use> uses;
  double moreBytes = 0;  // that are sent again
};

struct Fluid {
  std::vector<double> capacities;  // of links, bytes a microsecond
  std::vector<Task> tasks;
  std::vector<Change> changes;
  std::vector<Reroute> reroutes;
};

struct Flowed {
  std::vector<double> endUs;      // of tasks; kNever: it stands still for ever
  std::vector<double> stillUs;    // for how long it stood still before
  std::vector<double> linkBytes;  // without overhead
  double wholeUs = 0;
};

/// Rates of `tasks`, by place in it, in bytes a microsecond. All rise together, by weight, until a link is full; who
/// passes that stays there, the others rise on. A task without links has an infinite rate.
std::vector<double> fairRates(const std::vector<double>& capacities, const std::vector<const Task*>& tasks);

/// Throws std::logic_error when bytes went lost or a link carried more than it can: a mistake of this file.
Flowed flow(const Fluid& fluid);

}  // namespace r2cc::sim
