#include "sim/network/fluid.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <utility>

namespace r2cc::sim {
namespace {

constexpr double kSameTime = 1 + 1e-12;  // times that differ by less are one
constexpr double kExact = 1e-9;          // of the bytes

class Flowing {
 public:
  explicit Flowing(const Fluid& fluid)
      : capacities_(fluid.capacities),
        tasks_(fluid.tasks),
        left_(tasks_.size()),
        changes_(byTime(fluid.changes)),
        reroutes_(byTime(fluid.reroutes)) {
    for (size_t i = 0; i < tasks_.size(); i++) left_[i] = tasks_[i].bytes;
    out_.endUs.assign(tasks_.size(), kNever);
    out_.stillUs.assign(tasks_.size(), 0);
    out_.linkBytes.assign(capacities_.size(), 0);
    started_.assign(tasks_.size(), false);
  }

  Flowed run() {
    while (true) {
      applyChanges();
      start();
      if (active_.empty() && nextStart() == kNever) break;
      const std::vector<double> rates = ratesOfActive();
      const double until = std::min({nextEnd(rates), nextStart(), nextEvent()});
      if (until == kNever) break;  // stands still for ever
      advance(rates, until);
    }
    check();
    for (const double end : out_.endUs) out_.wholeUs = std::max(out_.wholeUs, end);
    return std::move(out_);
  }

 private:
  template <typename Event>
  static std::vector<Event> byTime(std::vector<Event> events) {
    std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.atUs < b.atUs; });
    return events;
  }

  void applyChanges() {
    for (; change_ < changes_.size() && changes_[change_].atUs <= now_ * kSameTime; change_++) {
      capacities_[static_cast<size_t>(changes_[change_].link)] = changes_[change_].capacity;
    }
    for (; reroute_ < reroutes_.size() && reroutes_[reroute_].atUs <= now_ * kSameTime; reroute_++) {
      const Reroute& reroute = reroutes_[reroute_];
      const auto i = static_cast<size_t>(reroute.task);
      if (out_.endUs[i] != kNever) continue;
      tasks_[i].uses = reroute.uses;
      tasks_[i].bytes += reroute.moreBytes;
      left_[i] += reroute.moreBytes;
    }
  }

  /// When the task may begin; kNever: something before it has not ended.
  double readyAt(size_t i) const {
    double at = 0;
    for (const int before : tasks_[i].after) at = std::max(at, out_.endUs[static_cast<size_t>(before)]);
    return at + tasks_[i].delayUs;
  }

  double nextStart() const {
    double at = kNever;
    for (size_t i = 0; i < tasks_.size(); i++) {
      if (!started_[i]) at = std::min(at, readyAt(i));
    }
    return at;
  }

  /// Those without bytes end at once, which may let others begin.
  void start() {
    for (bool again = true; again;) {
      again = false;
      for (size_t i = 0; i < tasks_.size(); i++) {
        if (started_[i] || readyAt(i) > now_ * kSameTime) continue;
        started_[i] = true;
        if (left_[i] > 0) {
          active_.push_back(i);
        } else {
          out_.endUs[i] = now_;
          again = true;
        }
      }
    }
  }

  std::vector<double> ratesOfActive() const {
    std::vector<const Task*> tasks;
    tasks.reserve(active_.size());
    for (const size_t i : active_) tasks.push_back(&tasks_[i]);
    return fairRates(capacities_, tasks);
  }

  double endOf(size_t place, const std::vector<double>& rates) const {
    return rates[place] > 0 ? now_ + left_[active_[place]] / rates[place] : kNever;
  }

  double nextEnd(const std::vector<double>& rates) const {
    double at = kNever;
    for (size_t place = 0; place < active_.size(); place++) at = std::min(at, endOf(place, rates));
    return at;
  }

  double nextEvent() const {
    double at = kNever;
    if (change_ < changes_.size()) at = changes_[change_].atUs;
    if (reroute_ < reroutes_.size()) at = std::min(at, reroutes_[reroute_].atUs);
    return at;
  }

  void advance(const std::vector<double>& rates, double until) {
    std::vector<size_t> going;
    std::vector<double> carried(capacities_.size());  // bytes a microsecond, with overhead
    for (size_t place = 0; place < active_.size(); place++) {
      const size_t i = active_[place];
      const bool ends = endOf(place, rates) <= until * kSameTime;
      const double moved = ends ? left_[i] : rates[place] * (until - now_);
      if (rates[place] <= 0) out_.stillUs[i] += until - now_;
      for (const Use& use : tasks_[i].uses) {
        const auto link = static_cast<size_t>(use.link);
        out_.linkBytes[link] += moved * use.perByte;
        carried[link] += rates[place] * tasks_[i].overhead * use.perByte;
      }
      left_[i] -= moved;
      sent_ += moved;
      if (ends) out_.endUs[i] = until;
      if (!ends) going.push_back(i);
    }
    for (size_t link = 0; link < carried.size(); link++) {
      if (carried[link] > capacities_[link] * (1 + kExact)) throw std::logic_error("a link carried more than it can");
    }
    active_ = std::move(going);
    now_ = until;
  }

  /// What was sent is what there was to send.
  void check() const {
    double whole = 0;
    double left = 0;
    for (size_t i = 0; i < tasks_.size(); i++) {
      whole += tasks_[i].bytes;
      left += left_[i];
    }
    if (std::abs(whole - left - sent_) > kExact * whole) throw std::logic_error("bytes went lost");
  }

  std::vector<double> capacities_;
  std::vector<Task> tasks_;
  std::vector<double> left_;
  std::vector<Change> changes_;
  std::vector<Reroute> reroutes_;
  size_t change_ = 0, reroute_ = 0;
  std::vector<bool> started_;
  std::vector<size_t> active_;
  double now_ = 0;
  double sent_ = 0;
  Flowed out_;
};

}  // namespace

Flowed flow(const Fluid& fluid) { return Flowing(fluid).run(); }

}  // namespace r2cc::sim
