#include "sim/hit.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <utility>

namespace r2cc::sim {
namespace {

Hosts after(const Topology& topology, const State& state, const Fault& fault) {
  Hosts out(topology, state.hosts);
  for (const auto& [host, left] : state.left) out.set(host, left);
  Left left = out.left(fault.host);
  left[static_cast<size_t>(fault.nic)] *= fault.factor;
  out.set(fault.host, std::move(left));
  return out;
}

/// Every stream with the ways that it takes before the fault and behind it. What a ring sends lies on one channel a
/// NIC.
class Struck {
 public:
  Struck(const Question& question, const State& state, const Running& running, const Fault& fault)
      : question_(question),
        running_(running),
        fault_(fault),
        behind_(after(question.topology, state, fault)),
        wiring_(question.topology, running.hosts(), state.fabric, nvlinkBytesPerUs(question), true) {}

  /// False: already before the fault something does not get where it should.
  bool wire() {
    for (const Stream& stream : running_.streams()) {
      if (!add(stream)) return false;
    }
    fluid_.capacities = wiring_.capacities();
    return true;
  }

  bool waysBehind() const { return waysBehind_; }
  Fluid& fluid() { return fluid_; }
  int link(int direction) const { return wiring_.outOf(fault_.host, fault_.nic) + direction; }
  double had() const { return wiring_.capacities()[static_cast<size_t>(link(0))]; }

  /// From then on the NIC has so much.
  void capacity(double atUs, double bytesPerUs) {
    for (const int direction : {0, 1}) fluid_.changes.push_back({atUs, link(direction), bytesPerUs});
  }

  void moveOver(double atUs, const std::vector<double>& more) {
    for (size_t i = 0; i < behindUses_.size(); i++) {
      fluid_.reroutes.push_back({atUs, static_cast<int>(i), behindUses_[i], more.empty() ? 0 : more[i]});
    }
  }

  void moveBack(double atUs) {
    for (size_t i = 0; i < fluid_.tasks.size(); i++) {
      fluid_.reroutes.push_back({atUs, static_cast<int>(i), fluid_.tasks[i].uses, 0});
    }
  }

  /// What a byte of the stream puts on the NIC, in the busier direction.
  double onNic(size_t task) const {
    double most = 0;
    for (const Use& use : fluid_.tasks[task].uses) {
      if (use.link == link(0) || use.link == link(1)) most = std::max(most, use.perByte);
    }
    return most;
  }

 private:
  bool add(const Stream& stream) {
    const bool balanced = running_.arm().way == Way::Balanced;
    const double bytes = stream.share * static_cast<double>(question_.bytes);
    if (balanced && !stream.ring) return add(stream, Way::Balanced, {}, bytes * question_.groups, stream.share);
    const Way way = balanced ? Way::Spread : running_.arm().way;
    const int nics = question_.topology.nics;
    const int groups = balanced ? 1 : question_.groups;
    const double each = balanced ? question_.groups : 1;
    for (int group = 0; group < groups; group++) {
      const std::vector<double> homes = homesOf(group, groups, nics);
      for (int nic = 0; nic < nics; nic++) {
        const double share = homes[static_cast<size_t>(nic)];
        if (share > 0 && !add(stream, way, homesOf(nic, nics, nics), bytes * each * share, stream.share * share)) {
          return false;
        }
      }
    }
    return true;
  }

  bool add(const Stream& stream, Way way, const std::vector<double>& homes, double bytes, double weight) {
    Routes before(question_.topology, running_.hosts(), way, homes);
    Routes behind(question_.topology, behind_, way, homes);
    if (!wiring_.look(stream.edges, before)) return false;
    waysBehind_ = waysBehind_ && wiring_.look(stream.edges, behind);
    Task task;
    task.weight = weight;
    task.overhead = stream.overhead;
    task.after = stream.after;
    task.uses = wiring_.wire(stream.edges, before, question_.ranksPerNode > 1);
    task.bytes = task.uses.empty() ? 0 : bytes;
    fluid_.tasks.push_back(std::move(task));
    if (waysBehind_) behindUses_.push_back(wiring_.wire(stream.edges, behind, question_.ranksPerNode > 1));
    return true;
  }

  const Question& question_;
  const Running& running_;
  const Fault& fault_;
  const Hosts behind_;
  Wiring wiring_;
  Fluid fluid_;
  std::vector<std::vector<Use>> behindUses_;
  bool waysBehind_ = true;
};

/// One hit, told in the order in which things happen.
class Hitting {
 public:
  Hitting(const Question& question, const State& state, const Running& running, const Fault& fault,
          const Recovery& recovery)
      : question_(question),
        state_(state),
        running_(running),
        fault_(fault),
        recovery_(recovery),
        struck_(question, state, running, fault) {}

  HitAnswer run() {
    HitAnswer out;
    out.schedule = planner::name(running_.plan().schedule);
    out.timeUs = out.healthyUs = kNever;
    if (!struck_.wire()) return out;
    const Flowed healthy = flow(struck_.fluid());
    atUs_ = fault_.atShare * healthy.wholeUs;
    out.healthyUs = healthy.wholeUs + running_.plan().latencyUs;
    endsBefore_ = healthy.endUs;
    const Manner manner = mannerHere();
    if (!fault_.cut) {
      becomeSlower();
    } else if (manner == Manner::Excludes && fault_.durationUs > recovery_.excludeUs) {
      return excluded(out);
    } else if (manner == Manner::Migrates) {
      migrate(out);
    } else if (manner == Manner::FailsOver) {
      standUntil(std::min(fault_.durationUs, recovery_.failoverUs));
    } else {
      if (fault_.durationUs > recovery_.toleranceUs && touched()) return dead(out);
      standUntil(fault_.durationUs + recovery_.resumeUs);
    }
    return finished(out);
  }

 private:
  double endUs() const { return atUs_ + fault_.durationUs; }

  Manner mannerHere() const {
    const Manner manner = running_.arm().manner;
    if (manner == Manner::FailsOver && (question_.topology.ports < 2 || fault_.factor <= 0)) return Manner::Waits;
    if (manner == Manner::Migrates && !struck_.waysBehind()) return Manner::Waits;
    return manner;
  }

  bool touches(size_t task) { return endsBefore_[task] > atUs_ && struck_.onNic(task) > 0; }
  bool touched() {
    for (size_t i = 0; i < endsBefore_.size(); i++) {
      if (touches(i)) return true;
    }
    return false;
  }

  void becomeSlower() {
    struck_.capacity(atUs_, struck_.had() * fault_.factor);
    struck_.capacity(endUs(), struck_.had());
    const bool relieved = running_.arm().way == Way::Balanced && running_.arm().manner == Manner::Migrates;
    if (!relieved || fault_.durationUs <= recovery_.slowUs || !struck_.waysBehind()) return;
    struck_.moveOver(atUs_ + recovery_.slowUs, {});
    struck_.moveBack(endUs() + recovery_.failbackUs);
  }

  /// Nothing passes the NIC for so long; then what is left of it, until it is whole again.
  void standUntil(double durationUs) {
    struck_.capacity(atUs_, 0);
    if (durationUs < fault_.durationUs) struck_.capacity(atUs_ + durationUs, struck_.had() * fault_.factor);
    struck_.capacity(std::max(endUs(), atUs_ + durationUs), struck_.had());
  }

  void migrate(HitAnswer& out) {
    const double knownUs = recovery_.detectUs + recovery_.handshakeUs;
    if (fault_.durationUs <= knownUs) return standUntil(fault_.durationUs);
    std::vector<double> more(endsBefore_.size(), 0);
    for (size_t i = 0; i < more.size(); i++) {
      if (!touches(i)) continue;
      more[i] = recovery_.replayBytes / struck_.onNic(i);
      out.replayBytes += 2 * recovery_.replayBytes;  // of the connection out, and of the one in
    }
    struck_.capacity(atUs_, 0);
    struck_.capacity(atUs_ + knownUs, struck_.had() * fault_.factor);
    struck_.capacity(endUs(), struck_.had());
    struck_.moveOver(atUs_ + knownUs, more);
    struck_.moveBack(endUs() + recovery_.failbackUs);
  }

  HitAnswer finished(HitAnswer out) {
    const Flowed flowed = flow(struck_.fluid());
    out.timeUs = flowed.wholeUs + running_.plan().latencyUs;
    out.completed = flowed.wholeUs < kNever;
    for (size_t i = 0; i < endsBefore_.size(); i++) {
      if (touches(i)) out.stallUs = std::max(out.stallUs, flowed.stillUs[i]);
    }
    return out;
  }

  HitAnswer dead(HitAnswer out) const {
    out.stallUs = recovery_.toleranceUs;
    out.timeUs = atUs_ + recovery_.toleranceUs;
    return out;
  }

  /// Done anew from the beginning, over what is left.
  HitAnswer excluded(HitAnswer out) {
    if (!touched()) return finished(out);
    out.stallUs = recovery_.excludeUs + recovery_.replanUs;
    State left = state_;
    Left nics = running_.hosts().left(fault_.host);
    nics[static_cast<size_t>(fault_.nic)] *= fault_.factor;
    left.left.emplace_back(fault_.host, std::move(nics));
    out.timeUs = atUs_ + out.stallUs + solve(question_, left, false).timeUs;
    out.completed = out.timeUs < kNever;
    return out;
  }

  const Question& question_;
  const State& state_;
  const Running& running_;
  const Fault& fault_;
  const Recovery& recovery_;
  Struck struck_;
  double atUs_ = 0;
  std::vector<double> endsBefore_;
};

}  // namespace

HitAnswer hit(const Question& question, const State& state, const Fault& fault, const Recovery& recovery) {
  const Running running(question, state);
  HitAnswer nothing;
  nothing.timeUs = nothing.healthyUs = kNever;
  if (!running.possible()) return nothing;
  return Hitting(question, state, running, fault, recovery).run();
}

}  // namespace r2cc::sim
