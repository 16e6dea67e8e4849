#include "planner/shapes/placing.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "planner/cost/rails.h"

namespace r2cc::planner {
namespace {

constexpr size_t kMostPlaced = 32;     // nodes; one of more carries so little of the whole that placing gains nothing
constexpr int kStarts = 12;            // drawn choices that are made better, beside the given one
constexpr size_t kMostWork = 2 << 20;  // sums of one NIC's time, for each start
constexpr double kLess = 1 - 1e-9;

struct Cutting {
  static constexpr int kUnused = -1;
  std::vector<int> heads;  // by channel
  Rails::Loads sum;        // of the channels, each as if it carried all
  int used = 0;
};

/// How good a choice is: the busiest NIC's time, and of equals the one with fewer NICs that are about as busy.
struct Worth {
  double most = 1e300, crowd = 1e300;
  bool operator<(const Worth& other) const {
    if (most < other.most * kLess) return true;
    return most <= other.most / kLess && crowd < other.crowd * kLess;
  }
};

class Placer {
 public:
  Placer(const std::vector<Node>& nodes, const std::vector<std::vector<int>>& cycles, const std::vector<int>& homes,
         const Cuts& cuts, const std::vector<int>& ring, double ringLoad)
      : cycles_(cycles), homes_(homes), cuts_(cuts), rails_(nodes), rings_(rails_.none()), share_(1 - cuts.ringShare) {
    for (const int home : homes) {
      const double load = cuts.ringShare * ringLoad / static_cast<double>(homes.size());
      for (size_t i = 0; i < ring.size() && load > 0; i++) {
        rails_.add(rings_, static_cast<size_t>(home), ring[i], ring[(i + 1) % ring.size()], load);
      }
    }
  }

  /// Every cut on all homes.
  Placing asGiven() const {
    Cutting choice{std::vector<int>(cycles_.size() * homes_.size(), Cutting::kUnused), rails_.none(), 0};
    for (const Cut& cut : cuts_.cuts) {
      for (size_t which = 0; which < homes_.size(); which++) {
        choice.heads[cut.cycle * homes_.size() + which] = static_cast<int>(cut.head);
        choice.used++;
        addCut(choice.sum, cycles_[cut.cycle], static_cast<size_t>(homes_[which]), cut.head);
      }
    }
    return placingOf(choice);
  }

  Placing searched() {
    for (const std::vector<int>& cycle : cycles_) {
      for (const int home : homes_) loads_.push_back(cutsOf(cycle, static_cast<size_t>(home)));
    }
    Cutting best = choiceOf(std::vector<int>(loads_.size(), Cutting::kUnused));
    for (const Cut& cut : cuts_.cuts) {
      for (size_t which = 0; which < homes_.size(); which++) {
        set(best, cut.cycle * homes_.size() + which, static_cast<int>(cut.head));
      }
    }
    better(best);
    uint64_t state = 1;
    for (int start = 0; start < kStarts; start++) {
      Cutting other = drawn(state);
      better(other);
      if (worth(other) < worth(best)) best = std::move(other);
    }
    return placingOf(best);
  }

 private:
  Placing placingOf(const Cutting& choice) const {
    Placing out;
    out.usPerByte = worth(choice).most;
    for (size_t i = 0; i < choice.heads.size(); i++) {
      if (choice.heads[i] != Cutting::kUnused) add(out, i, static_cast<size_t>(choice.heads[i]));
    }
    return out;
  }

  /// What a chain along all of the cycle but the edge that ends at `head` makes of NICs.
  void addCut(Rails::Loads& sum, const std::vector<int>& cycle, size_t home, size_t head) const {
    for (size_t i = 0; i < cycle.size(); i++) {
      if (i == head) continue;
      const int a = cycle[(i + cycle.size() - 1) % cycle.size()], b = cycle[i];
      rails_.add(sum, home, a, b, 1);
      rails_.add(sum, home, b, a, 1);
    }
  }

  /// A channel's loads by where it is cut.
  std::vector<Rails::Loads> cutsOf(const std::vector<int>& cycle, size_t home) const {
    std::vector<Rails::Loads> edges(cycle.size(), rails_.none());
    Rails::Loads all = rails_.none();
    for (size_t i = 0; i < cycle.size(); i++) {  // edge i ends at cycle[i]: it is what a cut at head i leaves out
      const int a = cycle[(i + cycle.size() - 1) % cycle.size()], b = cycle[i];
      rails_.add(edges[i], home, a, b, 1);
      rails_.add(edges[i], home, b, a, 1);
      for (size_t row = 0; row < all.size(); row++) all[row] += edges[i][row];
    }
    for (Rails::Loads& edge : edges) {
      for (size_t row = 0; row < all.size(); row++) edge[row] = all[row] - edge[row];
    }
    return edges;
  }

  Cutting choiceOf(const std::vector<int>& heads) const {
    Cutting made{std::vector<int>(heads.size(), Cutting::kUnused), rails_.none(), 0};
    for (size_t i = 0; i < heads.size(); i++) set(made, i, heads[i]);
    return made;
  }

  Cutting drawn(uint64_t& state) const {
    std::vector<int> heads;
    for (const std::vector<Rails::Loads>& cuts : loads_) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      heads.push_back(static_cast<int>((state >> 33) % cuts.size()));
    }
    return choiceOf(heads);
  }

  void set(Cutting& choice, size_t channel, int head) const {
    int& now = choice.heads[channel];
    for (const auto& [which, sign] : {std::pair(now, -1.0), std::pair(head, 1.0)}) {
      if (which == Cutting::kUnused) continue;
      choice.used += sign > 0 ? 1 : -1;
      const Rails::Loads& loads = loads_[channel][static_cast<size_t>(which)];
      for (size_t row = 0; row < loads.size(); row++) choice.sum[row] += sign * loads[row];
    }
    now = head;
  }

  Worth worth(const Cutting& choice) const {
    if (choice.used == 0) return {};
    Worth out{0, 0};
    const double each = share_ / choice.used;
    for (size_t row = 0; row < rings_.size(); row++) {
      out.most = std::max(out.most, rings_[row] + each * choice.sum[row]);
    }
    for (size_t row = 0; row < rings_.size(); row++) {
      const double part = (rings_[row] + each * choice.sum[row]) / out.most, fourth = part * part * part * part;
      out.crowd += fourth * fourth;
    }
    return out;
  }

  /// One channel at a time is cut elsewhere, left out or taken back while that helps; then two at a time.
  void better(Cutting& choice) const {
    size_t work = 0;
    Worth least = worth(choice);
    while (work < kMostWork && (step(choice, 0, loads_.size(), least, work) || pairStep(choice, least, work))) {
    }
  }

  bool step(Cutting& choice, size_t from, size_t to, Worth& least, size_t& work) const {
    size_t channel = 0;
    int head = 0;
    bool found = false;
    for (size_t i = from; i < to; i++) {
      const int before = choice.heads[i];
      for (int other = Cutting::kUnused; other < static_cast<int>(loads_[i].size()) && work < kMostWork; other++) {
        if (other == before) continue;
        set(choice, i, other);
        work += 4 * rings_.size();
        if (const Worth now = worth(choice); now < least) least = now, channel = i, head = other, found = true;
      }
      set(choice, i, before);
    }
    if (found) set(choice, channel, head);
    return found;
  }

  bool pairStep(Cutting& choice, Worth& least, size_t& work) const {
    for (size_t i = 1; i < loads_.size() && work < kMostWork; i++) {
      const int before = choice.heads[i];
      for (int other = Cutting::kUnused; other < static_cast<int>(loads_[i].size()); other++) {
        if (other == before) continue;
        set(choice, i, other);
        if (step(choice, 0, i, least, work)) return true;
      }
      set(choice, i, before);
    }
    return false;
  }

  void add(Placing& out, size_t channel, size_t head) const {
    const size_t cycle = channel / homes_.size();
    const auto same = [&](const PlacedCut& cut) { return cut.cycle == cycle && cut.head == head; };
    auto found = std::find_if(out.cuts.begin(), out.cuts.end(), same);
    if (found == out.cuts.end()) found = out.cuts.insert(found, {cycle, head, {}});
    found->homes.push_back(static_cast<int>(channel % homes_.size()));
  }

  const std::vector<std::vector<int>>& cycles_;
  const std::vector<int>& homes_;
  const Cuts& cuts_;
  const Rails rails_;
  Rails::Loads rings_;
  const double share_;                            // of the message: the chains'
  std::vector<std::vector<Rails::Loads>> loads_;  // by channel and head; only where they are searched
};

}  // namespace

Placing placed(const std::vector<Node>& nodes, const std::vector<std::vector<int>>& cycles,
               const std::vector<int>& homes, const Cuts& cuts, const std::vector<int>& ring, double ringLoad) {
  Placer placer(nodes, cycles, homes, cuts, ring, ringLoad);
  return nodes.size() <= kMostPlaced ? placer.searched() : placer.asGiven();
}

}  // namespace r2cc::planner
