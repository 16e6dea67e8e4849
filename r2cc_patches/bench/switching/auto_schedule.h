// --schedule: what all ranks run while NICs come and go. Each reports its own; rank 0 proposes what is left of all of
// them; each plans for itself; and the agreement (../agree) names the iteration from which on it holds. The same as in
// NCCL (../nccl/schedules.h), over connections of the bench's own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "agree/agreement.h"
#include "bench/programs/weave.h"
#include "bench/ranks/bootstrap.h"
#include "bench/switching/health.h"
#include "bench/switching/tracks.h"

namespace r2cc::bench {

// What runs from an iteration on.
struct Choice {
  uint64_t epoch = 0;
  std::string capacities;
  planner::Plan plan;
  std::vector<std::vector<End>> ends;  // by track: what this rank's ends move
  std::vector<bool> used;              // by track: whether any rank moves anything there
};

class AutoSchedule {
 public:
  // Collective. `names`: this rank's NICs in the order of `nodes`, which all ranks know alike.
  AutoSchedule(const Options& options, Bootstrap& bootstrap, std::vector<planner::Node> nodes, Tracks tracks,
               std::function<std::vector<double>(int64_t iteration)> capacities);
  // Leaves the agreement.
  ~AutoSchedule();
  AutoSchedule(const AutoSchedule&) = delete;
  AutoSchedule& operator=(const AutoSchedule&) = delete;

  const Tracks& tracks() const { return tracks_; }
  // What runs at first, from what the ranks knew when they met.
  Choice first() const;
  // Once an iteration, before anything of it: what runs from it on, if that is something else. Throws TransportError
  // when a rank is gone.
  std::optional<Choice> enter(int64_t iteration);

 private:
  agree::Options agreementOptions();
  std::string decide(const std::vector<std::string>& reports);
  agree::Prepared prepare(const std::string& proposal);
  planner::Plan planFor(std::vector<planner::Node> nodes) const;
  Choice choose(const std::string& capacities, uint64_t epoch) const;
  bool somebodyEnded();

  const Options options_;
  Bootstrap& bootstrap_;
  const std::vector<planner::Node> nodes_;
  const Tracks tracks_;
  const std::function<std::vector<double>(int64_t)> capacities_;
  std::atomic<int64_t> iteration_{INT64_MIN};
  uint64_t epoch_ = 0;
  uint64_t history_ = 0;
  bool changed_ = false;      // decide() proposed something once; rank 0's background thread only
  std::exception_ptr ended_;  // what the bootstrap said while enter() waited
  std::mutex mutex_;
  std::condition_variable leaving_;
  bool left_ = false;               // under mutex_
  std::optional<Choice> prepared_;  // under mutex_
  std::unique_ptr<agree::Agreement> agreement_;
  std::unique_ptr<HealthWatch> watch_;
};

}  // namespace r2cc::bench
