#include "lanes/plan.h"

#include <algorithm>
#include <numeric>

#include "paths/balance.h"

namespace r2cc {
namespace {

std::vector<uint8_t> orderOf(const std::vector<PlanLane>& lanes) {
  std::vector<uint8_t> weights;
  weights.reserve(lanes.size());
  for (const PlanLane& l : lanes) weights.push_back(std::max<uint8_t>(l.weight, 1));
  return interleave(weights);
}

bool over(const Lane& lane) { return lane.posted.empty() || lane.state == LaneState::Closed; }

}  // namespace

PlanStep::PlanStep(uint64_t from, std::vector<PlanLane> lanes, const Slicing& cut)
    : from(from),
      cut(cut),
      lanes_(std::move(lanes)),
      order_(orderOf(lanes_)),
      round_(std::lcm(uint64_t{order_.size()}, uint64_t{std::max<uint8_t>(cut.parts, 1)})) {}

bool PlanStep::has(const Lane* lane) const {
  return std::any_of(lanes_.begin(), lanes_.end(), [&](const PlanLane& l) { return l.lane.get() == lane; });
}

void PlanStep::substitute(const LanePtr& by) {
  for (PlanLane& l : lanes_) {
    if (l.lane->state == LaneState::Closed) l.lane = by;
  }
}

bool PlanStep::broken() const {
  return std::any_of(lanes_.begin(), lanes_.end(),
                     [](const PlanLane& l) { return l.lane->state == LaneState::Closed; });
}

void Plan::changed() {
  only_ = steps_.size() == 1 && steps_[0].lanes().size() == 1 ? steps_[0].lanes()[0].lane.get() : nullptr;
  cuts_ = std::any_of(steps_.begin(), steps_.end(), [](const PlanStep& step) { return step.cut.parts > 1; });
}

void Plan::add(PlanStep step) {
  while (!steps_.empty() && steps_.back().from >= step.from) steps_.pop_back();
  steps_.push_back(std::move(step));
  changed();
}

void Plan::clear() {
  steps_.clear();
  changed();
}

const PlanStep* Plan::stepAt(uint64_t number) const {
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    if (step->from <= number) return &*step;
  }
  return nullptr;
}

Lane* Plan::laneFor(uint64_t number) const {
  const PlanStep* step = stepAt(number);
  return step == nullptr ? nullptr : step->laneFor(number).get();
}

bool Plan::has(const Lane* lane) const {
  return std::any_of(steps_.begin(), steps_.end(), [&](const PlanStep& step) { return step.has(lane); });
}

std::vector<LanePtr> Plan::lanes() const {
  std::vector<LanePtr> out;
  for (const PlanStep& step : steps_) {
    for (const PlanLane& l : step.lanes()) {
      if (std::find(out.begin(), out.end(), l.lane) == out.end()) out.push_back(l.lane);
    }
  }
  return out;
}

void Plan::substitute(const LanePtr& by) {
  for (PlanStep& step : steps_) step.substitute(by);
  changed();
}

bool Plan::broken() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const PlanStep& step) { return step.broken(); });
}

void Plan::dropOver(uint64_t through) {
  // Messages may have arrived whose inner requests are not yet over: only a lane of the plan is tested.
  const auto done = [&](const PlanStep& step, const PlanStep& next) {
    return next.from <= through && std::all_of(step.lanes().begin(), step.lanes().end(), [&](const PlanLane& l) {
             return over(*l.lane) || next.has(l.lane.get());
           });
  };
  while (steps_.size() > 1 && done(steps_[0], steps_[1])) steps_.erase(steps_.begin());
  changed();
}

}  // namespace r2cc
