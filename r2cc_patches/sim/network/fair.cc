#include <algorithm>
#include <cstddef>

#include "sim/network/fluid.h"

namespace r2cc::sim {
namespace {

constexpr double kSameLevel = 1 + 1e-12;

/// Progressive filling.
class Filling {
 public:
  Filling(const std::vector<double>& capacities, const std::vector<const Task*>& tasks)
      : tasks_(tasks),
        left_(capacities),
        load_(capacities.size()),
        rising_(capacities.size()),
        full_(capacities.size()),
        rates_(tasks.size(), kNever) {
    for (size_t i = 0; i < tasks.size(); i++) {
      if (tasks[i]->uses.empty()) continue;
      open_.push_back(i);
      for (const Use& use : tasks[i]->uses) {
        const auto link = static_cast<size_t>(use.link);
        load_[link] += tasks[i]->weight * tasks[i]->overhead * use.perByte;
        if (rising_[link]++ == 0) links_.push_back(link);
      }
    }
  }

  std::vector<double> run() {
    while (!open_.empty()) round();
    return std::move(rates_);
  }

 private:
  void round() {
    double level = kNever;
    for (const size_t link : links_) {
      if (rising_[link] > 0) level = std::min(level, levelOf(link));
    }
    for (const size_t link : links_) full_[link] = rising_[link] > 0 && levelOf(link) <= level * kSameLevel;
    const auto rises = [&](size_t i) { return !stop(i, level); };
    open_.erase(std::stable_partition(open_.begin(), open_.end(), rises), open_.end());
  }

  double levelOf(size_t link) const { return load_[link] > 0 ? std::max(0.0, left_[link]) / load_[link] : 0; }

  /// Stops it at this level if a link of its is full.
  bool stop(size_t i, double level) {
    const Task& task = *tasks_[i];
    const auto full = [&](const Use& use) { return full_[static_cast<size_t>(use.link)]; };
    if (std::none_of(task.uses.begin(), task.uses.end(), full)) return false;
    rates_[i] = level * task.weight;
    for (const Use& use : task.uses) {
      const auto link = static_cast<size_t>(use.link);
      const double load = task.weight * task.overhead * use.perByte;
      left_[link] -= level * load;
      load_[link] -= load;
      rising_[link]--;
    }
    return true;
  }

  const std::vector<const Task*>& tasks_;
  std::vector<double> left_;
  std::vector<double> load_;  // of those that rise, at level 1
  std::vector<int> rising_;   // how many
  std::vector<bool> full_;
  std::vector<size_t> links_;  // that are used
  std::vector<size_t> open_;   // tasks that rise
  std::vector<double> rates_;
};

}  // namespace

std::vector<double> fairRates(const std::vector<double>& capacities, const std::vector<const Task*>& tasks) {
  return Filling(capacities, tasks).run();
}

}  // namespace r2cc::sim
