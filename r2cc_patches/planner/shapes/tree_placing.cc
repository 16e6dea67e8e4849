#include "planner/shapes/tree_placing.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "planner/cost/rails.h"
#include "planner/shapes/tree.h"

namespace r2cc::planner {
namespace {

constexpr size_t kMostTreeNodes = 32;       // one of more carries so little of the whole that placing gains nothing
constexpr size_t kMostSwapWork = 24 << 20;  // sums of one NIC's time, of all starts together
constexpr int kDrawnStarts = 12;            // drawn orders that are made better, beside the given ones
constexpr double kLessBusy = 1 - 1e-9;

class TreePlacer {
 public:
  TreePlacer(const std::vector<Node>& nodes, std::vector<PlacedTree>& trees, Use use)
      : trees_(trees), use_(use), nodes_(static_cast<int>(nodes.size())), rails_(nodes), sum_(rails_.none()) {
    for (const PlacedTree& tree : trees_) {
      loads_.push_back(loadsOf(tree));
      if (!tree.used) continue;
      used_++;
      for (size_t row = 0; row < sum_.size(); row++) sum_[row] += loads_.back()[row];
    }
  }

  double usPerByte() const { return worth(sum_, used_).most; }

  /// Who has the busiest NIC changes places with another in one tree, or a tree is left out or taken back: the best of
  /// all such changes first.
  void search(size_t& work) {
    Worth least = worth(sum_, used_);
    while (work < kMostSwapWork && step(least)) work += 4 * sum_.size() * trees_.size() * static_cast<size_t>(nodes_);
  }

 private:
  /// The busiest NIC's time, and of equals the one with fewer NICs that are about as busy.
  struct Worth {
    double most = 0, crowd = 0;
    bool operator<(const Worth& other) const {
      if (most < other.most * kLessBusy) return true;
      return most <= other.most / kLessBusy && crowd < other.crowd * kLessBusy;
    }
  };

  /// Of so many trees, which carry the same each.
  static Worth worth(const Rails::Loads& sum, size_t trees) {
    const double most = *std::max_element(sum.begin(), sum.end());
    Worth out{most / static_cast<double>(trees), 0};
    for (const double load : sum) {
      const double part = load / most, fourth = part * part * part * part;
      out.crowd += fourth * fourth;
    }
    return out;
  }

  Rails::Loads loadsOf(const PlacedTree& tree) const {
    Rails::Loads loads = rails_.none();
    const auto nodes = static_cast<int>(tree.slots.size());
    for (int slot = 1; slot < nodes; slot++) {
      const int child = tree.slots[static_cast<size_t>(slot)];
      const int parent = tree.slots[static_cast<size_t>(treeParent(nodes, slot))];
      rails_.add(loads, {static_cast<size_t>(tree.home)}, child, parent, 1);
      rails_.add(loads, {static_cast<size_t>(tree.home)}, parent, child, 1);
    }
    return loads;
  }

  bool step(Worth& least) {
    const int node = busiest();
    size_t tree = trees_.size();
    int with = node;  // itself: the tree is left out, or taken back
    for (size_t which = 0; which < trees_.size(); which++) {
      for (int other = 0; other < nodes_; other++) {
        if (other == node || !trees_[which].used) continue;
        const Worth now = worth(sumWith(which, node, other), used_);
        if (now < least) least = now, tree = which, with = other;
      }
      if (use_ == Use::All || (trees_[which].used && used_ == 1)) continue;
      const Worth now = worth(sumOtherwise(which), usedOtherwise(which));
      if (now < least) least = now, tree = which, with = node;
    }
    if (tree == trees_.size()) return false;
    if (with == node)
      takeOtherwise(tree);
    else
      takeWith(tree, node, with);
    return true;
  }

  void takeWith(size_t tree, int node, int with) {
    sum_ = sumWith(tree, node, with);
    exchange(trees_[tree].slots, node, with);
    loads_[tree] = loadsOf(trees_[tree]);
  }

  void takeOtherwise(size_t tree) {
    sum_ = sumOtherwise(tree);
    used_ = usedOtherwise(tree);
    trees_[tree].used = !trees_[tree].used;
  }
  size_t usedOtherwise(size_t tree) const { return trees_[tree].used ? used_ - 1 : used_ + 1; }
  /// Without that tree; of one that is left out: with it.
  Rails::Loads sumOtherwise(size_t tree) const {
    Rails::Loads out = sum_;
    const double sign = trees_[tree].used ? -1 : 1;
    for (size_t row = 0; row < out.size(); row++) out[row] += sign * loads_[tree][row];
    return out;
  }

  int busiest() const {
    const auto row = std::max_element(sum_.begin(), sum_.end()) - sum_.begin();
    const std::ptrdiff_t nodes = nodes_, rails = static_cast<std::ptrdiff_t>(sum_.size()) / (2 * nodes);
    return static_cast<int>(row / rails % nodes);
  }

  static void exchange(std::vector<int>& slots, int a, int b) {
    std::iter_swap(std::find(slots.begin(), slots.end(), a), std::find(slots.begin(), slots.end(), b));
  }

  /// Loads if these two had changed places in that tree.
  Rails::Loads sumWith(size_t which, int a, int b) {
    exchange(trees_[which].slots, a, b);
    Rails::Loads out = loadsOf(trees_[which]);
    exchange(trees_[which].slots, a, b);
    for (size_t row = 0; row < out.size(); row++) out[row] += sum_[row] - loads_[which][row];
    return out;
  }

  std::vector<PlacedTree>& trees_;
  const Use use_;
  const int nodes_;
  const Rails rails_;
  Rails::Loads sum_;  // of all trees that are used, each as if it carried all
  size_t used_ = 0;
  std::vector<Rails::Loads> loads_;
};

/// Not std::shuffle: it gives other orders with another standard library, and all ranks must have the same.
void shuffle(std::vector<int>& slots, uint64_t& state) {
  for (size_t i = slots.size() - 1; i > 0; i--) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    std::swap(slots[i], slots[(state >> 33) % (i + 1)]);
  }
}

}  // namespace

double placeTrees(const std::vector<Node>& nodes, std::vector<PlacedTree>& trees, Use use) {
  TreePlacer given(nodes, trees, use);
  if (nodes.size() > kMostTreeNodes) return given.usPerByte();
  size_t work = 0;
  given.search(work);
  double least = given.usPerByte();
  uint64_t state = 1;
  for (int start = 0; start < kDrawnStarts && work < kMostSwapWork; start++) {
    std::vector<PlacedTree> others = trees;
    const int home = trees[static_cast<size_t>(start) / 2 % trees.size()].home;
    const bool all = use == Use::All || start % 2 == 0;
    for (PlacedTree& tree : others) {
      shuffle(tree.slots, state);
      tree.used = all || tree.home == home;  // what other homes bring may be what is too much
    }
    TreePlacer other(nodes, others, use);
    other.search(work);
    if (other.usPerByte() >= least * kLessBusy) continue;
    least = other.usPerByte();
    trees = std::move(others);
  }
  return least;
}

}  // namespace r2cc::planner
