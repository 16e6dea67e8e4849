// Which message goes to which lane: a list of steps, each a set of weighted lanes from some message on. Both ends hold
// the same steps, agreed by Freeze and Switch, so a message's lane needs no field in the message.
#pragma once

#include <cstdint>
#include <vector>

#include "lanes/lane.h"
#include "lanes/slicing.h"

namespace r2cc {

struct PlanLane {
  LanePtr lane;
  uint8_t weight = 1;
};

class PlanStep {
 public:
  PlanStep(uint64_t from, std::vector<PlanLane> lanes, const Slicing& cut = {});
  uint64_t from;  // first message of this step
  Slicing cut;    // of NCCL's messages that begin in it
  const std::vector<PlanLane>& lanes() const { return lanes_; }
  const LanePtr& laneFor(uint64_t number) const {
    const uint64_t turn = number - from;
    const uint64_t skipped = cut.parts > 1 ? turn / round_ : 0;
    return lanes_[order_[(turn + skipped) % order_.size()]].lane;
  }
  bool has(const Lane* lane) const;
  void substitute(const LanePtr& by);
  /// A lane of it was dropped and not yet replaced.
  bool broken() const;

 private:
  std::vector<PlanLane> lanes_;
  std::vector<uint8_t> order_;
  /// After so many turns each lane had its part of them, and the same parts of messages would come to the same lanes
  /// again: one turn is skipped. Else all that is short, and so has bytes in its first parts alone, would go one way.
  uint64_t round_;
};

class Plan {
 public:
  bool empty() const { return steps_.empty(); }
  size_t size() const { return steps_.size(); }
  /// The step that new messages will come to.
  const PlanStep& newest() const { return steps_.back(); }
  const std::vector<PlanStep>& steps() const { return steps_; }
  /// The lane of all messages where there is just one, or null. Tests begin here: a plan is three objects away from it.
  Lane* only() const { return only_; }
  /// Steps that would only begin after it are gone: no message was ever theirs.
  void add(PlanStep step);
  void clear();
  /// Of a message of NCCL's whose first part has this number.
  Slicing cutAt(uint64_t number) const {
    const PlanStep* step = cuts_ ? stepAt(number) : nullptr;
    return step == nullptr ? Slicing{} : step->cut;
  }
  /// Some step cuts messages.
  bool cuts() const { return cuts_; }
  /// Null when there is no plan yet.
  Lane* laneFor(uint64_t number) const;
  bool has(const Lane* lane) const;
  /// Every lane of it once, in the order of the steps.
  std::vector<LanePtr> lanes() const;
  /// Puts `by` in the place of every lane that was dropped.
  void substitute(const LanePtr& by);
  bool broken() const;
  /// Removes steps whose messages are all below `through` and over with the transport; their lanes are drained.
  void trim(uint64_t through) {
    if (steps_.size() > 1) dropOver(through);
  }

 private:
  void dropOver(uint64_t through);
  void changed();
  const PlanStep* stepAt(uint64_t number) const;
  Lane* only_ = nullptr;
  bool cuts_ = false;
  std::vector<PlanStep> steps_;
};

}  // namespace r2cc
