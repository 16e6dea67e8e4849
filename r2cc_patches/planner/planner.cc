#include "planner/planner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "planner/check_request.h"
#include "planner/cost/cluster.h"
#include "planner/cost/model.h"
#include "planner/cost/nccl_table.h"
#include "planner/shapes/less.h"
#include "planner/shapes/order.h"
#include "planner/shapes/pool.h"
#include "planner/shapes/schedules.h"
#include "planner/shapes/tree.h"
#include "planner/words.h"

namespace r2cc::planner {
namespace {

constexpr int kFewestForRivals = 3;
constexpr int kMostParts = 1024;  // where the request sets no limit

struct Choice {
  Proposal proposal;
  Estimate estimate;
  bool runs() const { return !estimate.drafts().empty(); }
};

/// One call of plan().
class Planning {
 public:
  explicit Planning(const Request& request)
      : request_(request),
        cluster_(request),
        use_(ringUse(request.op, cluster_)),
        parts_(request.channels > 0 ? request.channels : kMostParts),
        bytes_(static_cast<double>(request.bytes)),
        own_(hasOwnOrder(request) ? requestOrder(cluster_) : ringOrder(cluster_)),
        ring_(request.cycles.empty() ? ringOrder(cluster_) : own_),
        rivals_(rivalsFor(request, cluster_), cluster_, request.op, request.cost) {}

  Plan run() {
    add(proposeOrdinary(request_.op, own_));
    const std::string plain = whyPlain();
    if (plain.empty()) addSpecial();
    const size_t chosen = plain.empty() ? choose() : 0;
    Plan out = planOf(chosen);
    out.why = plain.empty() ? whyChosen(chosen, out) : plain;
    if (const int count = strangers(cluster_, chosen > 0 ? ring_ : own_, true); count > 0) {
      out.why += "; " + std::to_string(count) + " neighbours in the ring share no rail that works";
    }
    return out;
  }

 private:
  static std::vector<Rival> rivalsFor(const Request& request, const Cluster& cluster) {
    if (!(request.op == "allreduce" || gathers(request)) || cluster.nodes() < kFewestForRivals) return {};
    return request.nccl && !gathers(request) ? rivalsOf(*request.nccl, cluster) : request.rivals;
  }

  /// NCCL's ring stands as it stands; any other executor takes the best order.
  static bool hasOwnOrder(const Request& request) {
    return !request.cycles.empty() || request.nccl || !request.rivals.empty();
  }

  bool automatic() const { return request_.schedule == Schedule::Auto; }
  bool forcedRing() const { return request_.schedule == Schedule::Ring || request_.schedule == Schedule::Balance; }

  /// Nothing but a ring, in whatever order, comes into question.
  static bool gathers(const Request& request) { return request.op == "allgather" || request.op == "reducescatter"; }

  /// Why nothing but a plain ring comes into question; empty: something does.
  std::string whyPlain() const {
    static constexpr std::array<std::string_view, 5> kReductions{"sum", "prod", "min", "max", "avg"};
    const bool ringsAlone = gathers(request_);
    if (request_.op != "allreduce" && !(ringsAlone && hasOwnOrder(request_))) {
      return request_.op + " has no special schedule: it runs on balanced paths";
    }
    if (!ringsAlone && std::find(kReductions.begin(), kReductions.end(), request_.reduction) == kReductions.end()) {
      return "reduction " + request_.reduction + " has no special schedule: a ring on balanced paths";
    }
    if (cluster_.nodes() < 2) return "one node: nothing goes through a NIC";
    if (automatic() && cluster_.alike()) {
      return "no node is slower than the others: a plain ring";
    }
    return "";
  }

  Choice choiceOf(Proposal proposal) const {
    Estimate estimate(cluster_, request_.cost, std::move(proposal.drafts), use_);
    estimate.atLeast(proposal.railsUsPerByte);
    const auto isRing = [](const Draft& draft) { return draft.kind == Kind::Ring; };
    const bool rings = std::any_of(estimate.drafts().begin(), estimate.drafts().end(), isRing);
    if (rings && proposal.schedule != Schedule::Ring) estimate.hopsAtLeast(rivals_.ringLatencyUs());
    return {std::move(proposal), std::move(estimate)};
  }

  void add(Proposal proposal) { choices_.push_back(choiceOf(std::move(proposal))); }

  /// The fastest of several for one schedule at the request's size; of equals the first.
  void addBest(std::vector<Proposal> proposals) {
    std::vector<Choice> tried;
    size_t best = 0;
    for (Proposal& proposal : proposals) {
      tried.push_back(choiceOf(std::move(proposal)));
      const Choice& last = tried.back();
      const bool faster = usOf(last, bytes_) < usOf(tried[best], bytes_) * (1 - 1e-9);
      if (last.runs() && (!tried[best].runs() || faster)) best = tried.size() - 1;
    }
    choices_.push_back(std::move(tried[best]));
  }

  /// Which nodes suit each other depends on all that they lost, and what is proposed for that is not searched to the
  /// end. So what would be proposed if a NIC had less left may suit better, and is taken if it does by the margin.
  template <typename Propose>
  std::vector<Proposal> proposed(const Propose& propose) const {
    std::vector<Proposal> out = propose(cluster_, ring_);
    double least = std::numeric_limits<double>::infinity();
    for (const Proposal& proposal : out) least = std::min(least, usIfRuns(proposal));
    withLess(request_, cluster_, [&](const Request& less) {
      const Cluster cluster(less);
      for (Proposal& proposal : propose(cluster, ringOrder(cluster))) {
        if (usIfRuns(proposal) < least * (1 - request_.cost.margin)) out.push_back(std::move(proposal));
      }
    });
    return out;
  }

  double usIfRuns(const Proposal& proposal) const {
    if (proposal.drafts.empty()) return std::numeric_limits<double>::infinity();
    return usOf(choiceOf(proposal), bytes_);
  }

  void addSpecial() {
    if (!request_.cycles.empty()) {
      // In the order of preference: rings in another order run as NCCL's own do, and trees are connected at the switch.
      addBest(proposeReranked(request_, cluster_));
      if (!gathers(request_)) addBest(proposeCuts(request_, cluster_, ring_));
      if (!gathers(request_) && request_.rewired) addBest(proposeTreesOnChannels(request_, cluster_, ring_));
      return;
    }
    // In the order of preference: chains run on kernels that NCCL has, and allotted ends make the loads more even.
    if (hasOwnOrder(request_) && ring_ != own_)
      add({Schedule::Reranked, proposeRing(ring_).drafts, "a ring in another order, on balanced paths"});
    else if (request_.schedule == Schedule::Reranked)
      add({Schedule::Reranked, {}, "a ring stands in its best order anyway"});
    if (gathers(request_)) return;
    addBest(proposed(
        [&](const Cluster& cluster, const std::vector<int>& ring) { return proposeChains(cluster, ring, parts_); }));
    addBest(proposeFixedChain(cluster_, ring_, parts_));
    addBest(proposed(
        [&](const Cluster& cluster, const std::vector<int>& ring) { return proposeTrees(cluster, ring, parts_); }));
    add(proposeOptcc(cluster_, ring_, parts_));
    add(proposePublished(cluster_, ring_, parts_));
  }

  bool special(size_t i) const {
    if (i == 0 || !choices_[i].runs()) return false;
    return automatic() || forcedRing() || choices_[i].proposal.schedule == request_.schedule;
  }

  /// The first of those that may be chosen, unless a later one is faster by more than the margin. 0, the ring: there is
  /// none.
  size_t fastest(double bytes) const {
    size_t best = 0;
    for (size_t i = 1; i < choices_.size(); i++) {
      if (!special(i)) continue;
      if (best == 0 || us(i, bytes) < us(best, bytes) * (1 - request_.cost.margin)) best = i;
    }
    return best;
  }

  /// What runs while every NIC is whole; `slower`: while all nodes are by so much slower.
  double wholeUs(double slower = 1) const {
    if (rivals_.count() > 0) return rivals_.healthyUs(rivals_.chosen(bytes_), bytes_, slower);
    return healthyUs(cluster_, request_.cost, bytes_, use_, slower);
  }
  /// With several ranks a node chains can be faster than what runs where no node is slower than the fastest. That some
  /// are is no gain.
  double evenUs() const { return wholeUs(std::max(1.0, cluster_.healthySlowest() / cluster_.mostLeft())); }
  /// What would run without a special schedule.
  double ordinaryUs(double bytes) const { return rivals_.count() > 0 ? rivals_.chosenUs(bytes) : us(0, bytes); }
  double us(size_t i, double bytes) const { return usOf(choices_[i], bytes); }
  /// A ring, in another order too, is NCCL's ring/Simple: no faster than that is on whole NICs.
  double usOf(const Choice& choice, double bytes) const {
    const bool ring = choice.proposal.schedule == Schedule::Ring || choice.proposal.schedule == Schedule::Reranked;
    const double whole = ring ? rivals_.ringUs(bytes) : 0;
    return std::max(choice.estimate.predictedUs(bytes), whole);
  }
  bool pays(double bytes) const { return beats(bytes, ordinaryUs(bytes)); }
  bool beats(double bytes, double ordinary) const {
    const size_t best = fastest(bytes);
    return best > 0 && us(best, bytes) < ordinary * (1 - request_.cost.margin);
  }

  size_t choose() const {
    if (forcedRing()) return 0;
    return !automatic() || pays(bytes_) ? fastest(bytes_) : 0;
  }

  std::optional<uint64_t> threshold() const {
    return lowest([&](double bytes) { return pays(bytes); });
  }

  /// The smallest power of two from which on it holds for all of them.
  template <typename Holds>
  static std::optional<uint64_t> lowest(const Holds& holds) {
    std::optional<uint64_t> from;
    for (int power = kLargestPower; power >= 0; power--) {
      const uint64_t bytes = uint64_t{1} << power;
      if (!holds(static_cast<double>(bytes))) break;
      from = bytes;
    }
    return from;
  }

  /// `runs`: what beats them is the plan's own schedule. At another size another one may be faster, but this one is
  /// what its executor has. Where the plan is a ring: whichever is the fastest.
  std::vector<Baseline> baselines(size_t runs) const {
    std::vector<Baseline> out;
    for (size_t i = 0; i < rivals_.count(); i++) {
      out.push_back(rivals_.baseline(i, bytes_));
      out.back().beatenFrom = lowest([&](double bytes) {
        const double ordinary = rivals_.balancedUs(i, bytes);
        return runs > 0 ? us(runs, bytes) < ordinary * (1 - request_.cost.margin) : beats(bytes, ordinary);
      });
    }
    return out;
  }

  Plan planOf(size_t chosen) const {
    const Choice& choice = choices_[chosen];
    Plan out;
    out.schedule = request_.schedule == Schedule::Balance ? Schedule::Balance : choice.proposal.schedule;
    out.op = request_.op;
    out.bytes = request_.bytes;
    out.inTurn = choice.proposal.inTurn;
    const bool asNccl = rivals_.count() > 0 && automatic() && out.schedule == Schedule::Ring;
    out.predictedUs = asNccl ? ordinaryUs(bytes_) : usOf(choice, bytes_);
    out.latencyUs = choice.estimate.latencyUs(bytes_);
    out.boundUs = boundUs(cluster_, request_.op, bytes_);
    out.healthyUs = wholeUs();
    if (automatic() && out.schedule != Schedule::Ring) out.predictedUs = std::max(out.predictedUs, evenUs());
    if (choices_.size() > 1) out.thresholdBytes = threshold();
    for (const Draft& draft : choice.estimate.drafts()) out.parts.push_back(partOf(draft, choice.estimate));
    for (int node = 0; node < cluster_.nodes(); node++) {
      const double load = choice.estimate.loads()[static_cast<size_t>(node)] * bytes_;
      const double rateGbit = cluster_.left(node) / 125;
      out.nodes.push_back({request_.nodes[static_cast<size_t>(node)].name, rateGbit, load, load});
    }
    out.baselines = baselines(chosen);
    if (rivals_.count() > 0) out.ncclRuns = rivals_.rival(rivals_.chosen(bytes_)).name;
    for (const Choice& each : choices_) {
      Candidate candidate{each.proposal.schedule, std::nullopt, each.proposal.note};
      if (each.runs()) candidate.predictedUs = usOf(each, bytes_);
      out.candidates.push_back(std::move(candidate));
    }
    return out;
  }

  Part partOf(const Draft& draft, const Estimate& estimate) const {
    Part part;
    part.kind = draft.kind;
    part.share = draft.share;
    if (draft.kind == Kind::Tree)
      hang(part, draft.order);
    else
      part.order = draft.cycle < 0 ? cluster_.ranksOf(draft.order) : cutOf(draft);
    if (draft.straggler >= 0) part.straggler = cluster_.ranksOf(draft.straggler).front();
    part.mirrored = draft.mirrored;
    part.y = draft.y;
    if (draft.kind == Kind::Published && cluster_.ranksOf(draft.spared).size() > 1) {
      for (const int node : draft.spared) part.spared.push_back(cluster_.ranksOf(node));
    }
    part.cycle = draft.cycle;
    part.homes = draft.homes;
    if (draft.kind == Kind::Published) part.pieces = estimate.pieces(bytes_);
    return part;
  }

  /// A node's first rank below its parent node's, its others in a line below it.
  void hang(Part& part, const std::vector<int>& slots) const {
    std::vector<int> heads(slots.size());  // by slot: the first rank's place
    for (const int slot : treeDownwards(cluster_.nodes())) {
      heads[static_cast<size_t>(slot)] = static_cast<int>(part.order.size());
      const int parent = treeParent(cluster_.nodes(), slot);
      part.parents.push_back(parent < 0 ? -1 : heads[static_cast<size_t>(parent)]);
      for (const int rank : cluster_.ranksOf(slots[static_cast<size_t>(slot)])) part.order.push_back(rank);
      while (part.parents.size() < part.order.size()) part.parents.push_back(static_cast<int>(part.parents.size()) - 1);
    }
  }

  /// The cycle's own order of ranks, from the chain's first node on.
  std::vector<int> cutOf(const Draft& draft) const {
    std::vector<int> order = request_.cycles[static_cast<size_t>(draft.cycle)];
    const std::vector<int>& head = cluster_.ranksOf(draft.order.front());
    const auto inHead = [&](int rank) { return std::find(head.begin(), head.end(), rank) != head.end(); };
    std::rotate(order.begin(), std::find_if(order.begin(), order.end(), inHead), order.end());
    return order;
  }

  std::string whyChosen(size_t chosen, const Plan& out) const {
    const std::string situation = whoIsSlow(request_, cluster_);
    if (forcedRing()) return situation + ": a ring was asked for";
    if (out.schedule == Schedule::Ring && !automatic()) {
      return situation + ": " + name(request_.schedule) + " cannot run here (" + noteOf(request_.schedule) +
             "), so a ring on balanced paths";
    }
    if (out.schedule == Schedule::Ring) {
      return situation + ": " + ordinary(out) + " on balanced paths, as nothing else is faster by more than " +
             percent(request_.cost.margin) + " at this size" + whyNotFastest(0, out);
    }
    const std::string asked = automatic() ? "" : " was asked for and";
    return situation + ": " + name(out.schedule) + asked + " takes " + times(out.predictedUs / out.healthyUs) +
           " the healthy time, " + ordinary(out) + " on balanced paths " + times(ordinaryUs(bytes_) / out.healthyUs) +
           whyNotFastest(chosen, out);
  }

  /// Of rows that look faster than what was chosen.
  std::string whyNotFastest(size_t chosen, const Plan& out) const {
    if (!automatic()) return "";
    const double least = chosen > 0 ? us(chosen, bytes_) : out.predictedUs;
    std::string text;
    const bool otherThanARing = rivals_.count() > 0 && out.ncclRuns.rfind(name(Schedule::Ring), 0) != 0;
    if (otherThanARing && us(0, bytes_) < least) {
      text = "; a ring would take " + times(us(0, bytes_) / out.healthyUs) +
             ", but NCCL goes by its table, which has " + out.ncclRuns + " as faster";
    }
    for (size_t i = 1; i < choices_.size() && chosen > 0; i++) {
      if (special(i) && us(i, bytes_) < least) {
        text += std::string("; ") + name(choices_[i].proposal.schedule) + " is faster, but by less than " +
                percent(request_.cost.margin);
      }
    }
    return text;
  }

  static std::string ordinary(const Plan& plan) { return plan.ncclRuns.empty() ? "a ring" : "NCCL's " + plan.ncclRuns; }

  std::string noteOf(Schedule schedule) const {
    for (const Choice& choice : choices_) {
      if (choice.proposal.schedule == schedule) return choice.proposal.note;
    }
    return std::string(request_.op) + " has none";
  }

  const Request& request_;
  const Cluster cluster_;
  const RingUse use_;
  const int parts_;
  const double bytes_;
  const std::vector<int> own_;   // of the executor's ring
  const std::vector<int> ring_;  // what all else is made of
  const Rivals rivals_;
  std::vector<Choice> choices_;  // the ring first
};

}  // namespace

Plan plan(const Request& request) {
  check(request);
  const double reaches = ringReaches(request);
  if (!sharesNics(request) && reaches >= request.cost.ringEfficiency) return Planning(request).run();
  Request asItIs = sharesNics(request) ? pooled(request) : request;
  asItIs.cost.ringEfficiency = std::min(asItIs.cost.ringEfficiency, reaches);
  return Planning(asItIs).run();
}

Plan planOrRing(const Request& request) {
  try {
    return plan(request);
  } catch (const PlanError& error) {
    Plan ring;
    ring.parts.emplace_back();
    ring.why = error.what();
    return ring;
  }
}

std::vector<uint64_t> bounds(const Plan& plan, uint64_t count, uint64_t granule) {
  if (granule == 0) throw PlanError("a granule has one element at least");
  std::vector<uint64_t> out{0};
  double before = 0;  // not long double: that is of another size on each kind of CPU, and ranks must agree
  for (const Part& part : plan.parts) {
    before += part.share;
    const double units = before * static_cast<double>(count) / static_cast<double>(granule);
    out.push_back(std::clamp(static_cast<uint64_t>(std::llround(units)) * granule, out.back(), count));
  }
  out.back() = count;
  return out;
}

}  // namespace r2cc::planner
