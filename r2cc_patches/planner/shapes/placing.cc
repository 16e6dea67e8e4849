#include "planner/shapes/placing.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "planner/cost/rails.h"

namespace r2cc::planner {
namespace {

constexpr size_t kMostPlaced = 32;     // nodes; one of more carries so little of the whole that placing gains nothing
constexpr int kStarts = 12;            // drawn choices that are made better, beside the given one
constexpr int kKicks = 300;            // of the best one: some of its channels are drawn anew
constexpr size_t kMostKicked = 3;      // channels
constexpr size_t kMostWork = 1 << 20;  // sums of one NIC's time, for each start
constexpr size_t kMostKickWork = 6 * kMostWork;  // for all kicks together
constexpr double kLess = 1 - 1e-9;
constexpr double kLeastUsed = 1e-6;  // less is what sums leave of nothing

struct Cutting {
  static constexpr int kUnused = -1;
  std::vector<int> heads;  // by channel: where it is cut; as many as there are nodes: it is a ring
  Rails::Loads sum;        // of the channels, each connection as if it carried all
  double used = 0;         // of the message, if each connection carried all
  size_t busiest = 0;      // of the sums, with NCCL's own rings
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
        none_(rails_.none()),
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
    better(best, kMostWork);
    uint64_t state = 1;
    for (int start = 0; start < kStarts; start++) {
      // Of every third start few channels are used, of the first none: what all of them together carry best may be
      // slower than a few alone, if the others must share what a node has left.
      const size_t oneOf = start % 3 == 0 ? static_cast<size_t>(start) : 1;
      Cutting other = drawn(state, oneOf);
      better(other, kMostWork);
      if (worth(other) < worth(best)) best = std::move(other);
    }
    kick(best, state);
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

  static size_t draw(uint64_t& state, size_t below) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (state >> 33) % below;
  }

  /// One of so many channels is used; 0: none.
  Cutting drawn(uint64_t& state, size_t oneOf) const {
    std::vector<int> heads;
    for (const std::vector<Rails::Loads>& cuts : loads_) {
      const int head = static_cast<int>(draw(state, cuts.size()));
      const bool used = oneOf > 0 && draw(state, oneOf) == 0;
      heads.push_back(used ? head : Cutting::kUnused);
    }
    return choiceOf(heads);
  }

  /// What no change of two channels makes better, one of three may: some are drawn anew, and that is made better.
  void kick(Cutting& best, uint64_t& state) const {
    size_t work = 0;
    Cutting last = best;
    for (int kick = 0; kick < kKicks && work < kMostKickWork; kick++) {
      std::vector<int> heads = last.heads;
      for (size_t count = 2 + draw(state, kMostKicked - 1); count > 0; count--) {
        const size_t channel = draw(state, heads.size());
        heads[channel] = static_cast<int>(draw(state, loads_[channel].size() + 1)) - 1;
      }
      Cutting other = choiceOf(heads);
      work += better(other, kMostKickWork - work);
      if (worth(other) < worth(best)) best = other;
      if (!(worth(last) < worth(other))) last = std::move(other);
    }
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

  double timeOf(const Cutting& choice, size_t row) const {
    return rings_[row] + share_ / choice.used * choice.sum[row];
  }

  Worth worth(const Cutting& choice) const {
    if (choice.used < kLeastUsed) return {};
    Worth out{0, 0};
    for (size_t row = 0; row < rings_.size(); row++) out.most = std::max(out.most, timeOf(choice, row));
    for (size_t row = 0; row < rings_.size(); row++) out.crowd += crowd(timeOf(choice, row) / out.most);
    return out;
  }
  static double crowd(double part) {
    const double fourth = part * part * part * part;
    return fourth * fourth;
  }

  /// With one channel cut elsewhere. What is no better than `least` has no end: nearly all end at the busiest NIC.
  Worth worthWith(const Cutting& choice, size_t channel, int head, const Worth& least, size_t& work) const {
    const int before = choice.heads[channel];
    const double used = choice.used + weightOf(channel, head) - weightOf(channel, before);
    if (used < kLeastUsed) return {};
    const Rails::Loads& added = loadsOf(channel, head);
    const Rails::Loads& gone = loadsOf(channel, before);
    const double each = share_ / used, limit = least.most / kLess;
    const auto time = [&](size_t row) { return rings_[row] + each * (choice.sum[row] + added[row] - gone[row]); };
    work++;
    if (time(choice.busiest) > limit) return {};
    Worth out{0, 0};
    for (size_t row = 0; row < rings_.size(); row++) {
      const double now = time(row);
      if (now > limit) {
        work += row;
        return {};
      }
      out.most = std::max(out.most, now);
    }
    for (size_t row = 0; row < rings_.size(); row++) out.crowd += crowd(time(row) / out.most);
    work += 3 * rings_.size();
    return out;
  }
  const Rails::Loads& loadsOf(size_t channel, int head) const {
    return head == Cutting::kUnused ? none_ : loads_[channel][static_cast<size_t>(head)];
  }
  double weightOf(size_t channel, int head) const { return head == Cutting::kUnused ? 0 : weight(channel, head); }

  void findBusiest(Cutting& choice) const {
    for (size_t row = 0; row < rings_.size() && choice.used >= kLeastUsed; row++) {
      if (timeOf(choice, row) > timeOf(choice, choice.busiest)) choice.busiest = row;
    }
  }

  /// One channel at a time is cut elsewhere, left out or taken back while that helps; then two at a time. Returns the
  /// work.
  size_t better(Cutting& choice, size_t mostWork) const {
    size_t work = 0;
    Worth least = worth(choice);
    while (work < mostWork &&
           (step(choice, loads_.size(), least, work, mostWork) || pairStep(choice, least, work, mostWork))) {
    }
    return work;
  }

  /// Of the channels below `to` the one whose change makes it best.
  bool step(Cutting& choice, size_t to, Worth& least, size_t& work, size_t mostWork) const {
    size_t channel = 0;
    int head = 0;
    bool found = false;
    findBusiest(choice);
    for (size_t i = 0; i < to; i++) {
      const int heads = static_cast<int>(loads_[i].size());
      for (int other = Cutting::kUnused; other < heads && work < mostWork; other++) {
        if (other == choice.heads[i]) continue;
        const Worth now = worthWith(choice, i, other, least, work);
        if (now < least) least = now, channel = i, head = other, found = true;
      }
    }
    if (found) set(choice, channel, head);
    return found;
  }

  bool pairStep(Cutting& choice, Worth& least, size_t& work, size_t mostWork) const {
    for (size_t i = 1; i < loads_.size() && work < mostWork; i++) {
      const int before = choice.heads[i];
      for (int other = Cutting::kUnused; other < static_cast<int>(loads_[i].size()); other++) {
        if (other == before) continue;
        set(choice, i, other);
        work += 2 * rings_.size();
        if (step(choice, i, least, work, mostWork)) return true;
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
  const Rails::Loads none_;  // of a channel that is not used
  const double share_;       // of the message: what lies on cycles
  const double ofRing_;      // of the message, on a ring whose connections carry as much as it has
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
