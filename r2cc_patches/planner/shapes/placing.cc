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
constexpr double kLeastUsed = 1e-6;  // less is what sums leave of nothing

struct Cutting {
  static constexpr int kUnused = -1;
  std::vector<int> heads;  // by channel: where it is cut; as many as there are nodes: it is a ring
  Rails::Loads sum;        // of the channels, each connection as if it carried all
  double used = 0;         // of the message, if each connection carried all
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
         const Cuts& cuts, const std::vector<int>& ring, double ringLoad, Lines lines, Instead instead)
      : cycles_(cycles),
        homes_(homes),
        cuts_(cuts),
        rails_(nodes),
        rings_(rails_.none()),
        share_(1 - cuts.ringShare),
        ofRing_(1 / ringLoad),
        withRings_(lines == Lines::CutsAndRings),
        inTurn_(instead == Instead::InTurn) {
    const double load = cuts.ringShare * ringLoad / static_cast<double>(homes.size());
    for (const int home : homes) addRing(rails_, rings_, ring, {static_cast<size_t>(home)}, load);
  }

  static void addRing(const Rails& rails, Rails::Loads& sum, const std::vector<int>& ring,
                      const Rails::Channel& channel, double load) {
    for (size_t i = 0; i < ring.size() && load > 0; i++) {
      rails.add(sum, channel, ring[i], ring[(i + 1) % ring.size()], load);
    }
  }

  /// Every cut on all homes.
  Placing asGiven() const {
    Cutting choice{std::vector<int>(cycles_.size() * homes_.size(), Cutting::kUnused), rails_.none(), 0};
    for (const Cut& cut : cuts_.cuts) {
      for (size_t which = 0; which < homes_.size(); which++) {
        choice.heads[cut.cycle * homes_.size() + which] = static_cast<int>(cut.head);
        choice.used++;
        addCut(choice.sum, cycles_[cut.cycle], channelOf(cut.cycle, which), cut.head);
      }
    }
    return placingOf(choice);
  }

  Placing searched() {
    for (size_t cycle = 0; cycle < cycles_.size(); cycle++) {
      for (size_t which = 0; which < homes_.size(); which++) {
        loads_.push_back(cutsOf(cycles_[cycle], channelOf(cycle, which)));
      }
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
    double used = 0;  // without what was lost in sums and differences
    for (size_t i = 0; i < choice.heads.size(); i++) {
      if (choice.heads[i] != Cutting::kUnused) used += weight(i, choice.heads[i]);
    }
    for (size_t i = 0; i < choice.heads.size(); i++) {
      if (choice.heads[i] != Cutting::kUnused) add(out, i, choice.heads[i], share_ / used);
    }
    return out;
  }

  Rails::Channel channelOf(size_t cycle, size_t which) const {
    const auto home = static_cast<size_t>(homes_[which]);
    return inTurn_ ? Rails::Channel{home, turnOf(cycle, which, homes_)} : Rails::Channel{home};
  }
  bool isRing(size_t channel, int head) const {
    return static_cast<size_t>(head) == cycles_[channel / homes_.size()].size();
  }
  double weight(size_t channel, int head) const { return isRing(channel, head) ? ofRing_ : 1; }

  /// What a chain along all of the cycle but the edge that ends at `head` makes of NICs.
  void addCut(Rails::Loads& sum, const std::vector<int>& cycle, const Rails::Channel& channel, size_t head) const {
    for (size_t i = 0; i < cycle.size(); i++) {
      if (i == head) continue;
      const int a = cycle[(i + cycle.size() - 1) % cycle.size()], b = cycle[i];
      rails_.add(sum, channel, a, b, 1);
      rails_.add(sum, channel, b, a, 1);
    }
  }

  /// A channel's loads by where it is cut; of the ring last.
  std::vector<Rails::Loads> cutsOf(const std::vector<int>& cycle, const Rails::Channel& channel) const {
    std::vector<Rails::Loads> edges(cycle.size(), rails_.none());
    Rails::Loads all = rails_.none();
    for (size_t i = 0; i < cycle.size(); i++) {  // edge i ends at cycle[i]: it is what a cut at head i leaves out
      const int a = cycle[(i + cycle.size() - 1) % cycle.size()], b = cycle[i];
      rails_.add(edges[i], channel, a, b, 1);
      rails_.add(edges[i], channel, b, a, 1);
      for (size_t row = 0; row < all.size(); row++) all[row] += edges[i][row];
    }
    for (Rails::Loads& edge : edges) {
      for (size_t row = 0; row < all.size(); row++) edge[row] = all[row] - edge[row];
    }
    if (withRings_) {
      edges.push_back(rails_.none());
      addRing(rails_, edges.back(), cycle, channel, 1);
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
      choice.used += sign * weight(channel, which);
      const Rails::Loads& loads = loads_[channel][static_cast<size_t>(which)];
      for (size_t row = 0; row < loads.size(); row++) choice.sum[row] += sign * loads[row];
    }
    now = head;
  }

  Worth worth(const Cutting& choice) const {
    if (choice.used < kLeastUsed) return {};
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

  void add(Placing& out, size_t channel, int head, double share) const {
    const size_t cycle = channel / homes_.size();
    const bool whole = isRing(channel, head);
    const size_t at = whole ? 0 : static_cast<size_t>(head);
    const auto same = [&](const PlacedLine& l) { return l.cycle == cycle && l.head == at && l.whole == whole; };
    auto found = std::find_if(out.lines.begin(), out.lines.end(), same);
    if (found == out.lines.end()) found = out.lines.insert(found, {cycle, at, whole, {}, 0});
    found->homes.push_back(static_cast<int>(channel % homes_.size()));
    found->share += share * weight(channel, head);
  }

  const std::vector<std::vector<int>>& cycles_;
  const std::vector<int>& homes_;
  const Cuts& cuts_;
  const Rails rails_;
  Rails::Loads rings_;
  const double share_;   // of the message: what lies on cycles
  const double ofRing_;  // of the message, on a ring whose connections carry as much as it has
  const bool withRings_, inTurn_;
  std::vector<std::vector<Rails::Loads>> loads_;  // by channel and head; only where they are searched
};

}  // namespace

Placing placed(const std::vector<Node>& nodes, const std::vector<std::vector<int>>& cycles,
               const std::vector<int>& homes, const Cuts& cuts, const std::vector<int>& ring, double ringLoad,
               Lines lines, Instead instead) {
  Placer placer(nodes, cycles, homes, cuts, ring, ringLoad, lines, instead);
  return nodes.size() <= kMostPlaced ? placer.searched() : placer.asGiven();
}

double ringsUsPerByte(const std::vector<Node>& nodes, const std::vector<std::vector<int>>& cycles, size_t first,
                      size_t count, const std::vector<int>& homes, double ringLoad) {
  const Rails rails(nodes);
  Rails::Loads sum = rails.none();
  const double each = ringLoad / static_cast<double>(count * homes.size());
  for (size_t i = first; i < first + count; i++) {
    for (const int home : homes) Placer::addRing(rails, sum, cycles[i], {static_cast<size_t>(home)}, each);
  }
  return *std::max_element(sum.begin(), sum.end());
}

}  // namespace r2cc::planner
