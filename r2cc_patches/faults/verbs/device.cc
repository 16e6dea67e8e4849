#include "faults/verbs/device.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "faults/monotonic.h"

namespace r2cc::faults {

namespace {

Side sideOf(const ibv_wc& completion) {
  if (completion.status != IBV_WC_SUCCESS) return Side::Unknown;
  return (completion.opcode & IBV_WC_RECV) != 0 ? Side::Receive : Side::Send;
}

/// Of a completion that failed, drivers fill in no more than this.
void fail(ibv_wc& completion, int status) {
  ibv_wc failed{};
  failed.wr_id = completion.wr_id;
  failed.qp_num = completion.qp_num;
  failed.status = static_cast<ibv_wc_status>(status);
  completion = failed;
}

bool contains(const ActiveRules& rules, const std::shared_ptr<ActiveRule>& one) {
  return std::find(rules.begin(), rules.end(), one) != rules.end();
}

}  // namespace

ActiveRules Device::oursOf(const ActiveRules& rules) const {
  ActiveRules ours;
  for (const auto& one : rules)
    if (one->rule.device == name_) ours.push_back(one);
  return ours;
}

void Device::setRules(const ActiveRules& rules) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ActiveRules ours = oursOf(rules);
  for (const auto& one : rules_)
    if (one->rule.after && !contains(ours, one)) (void)events_.say(*one->rule.after, one->rule.port);
  for (const auto& one : ours) {
    if (one->rule.action != VerbsAction::Event || contains(rules_, one)) continue;
    if (events_.isOpen() && one->strikes(monotonicNs())) (void)events_.say(one->rule.event, one->rule.port);
  }
  rules_ = std::move(ours);
  refresh();
}

int Device::openEvents(int asyncFd) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return events_.open(asyncFd);
}

void Device::closeEvents() {
  const std::lock_guard<std::mutex> lock(mutex_);
  events_.close();
}

int Device::poll(ibv_cq* cq, int room, ibv_wc* out) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Held& held = held_[cq];
  int given = held.take(out, room, monotonicNs());
  // What is lost makes room: who polls until there is nothing must get all that there is.
  for (int got = room - given, asked = got; given < room && got == asked;) {
    asked = room - given;
    got = driver_.pollCq(cq, asked, out + given);
    if (got < 0) return given > 0 ? given : got;
    ibv_wc* const first = out + given;
    for (int n = 0; n < got; n++) {
      ibv_wc completion = first[n];
      bool kept = true;
      filter(held, completion, kept);
      if (kept) out[given++] = completion;
    }
  }
  if (held.empty()) held_.erase(cq);
  refresh();
  return given;
}

void Device::filter(Held& held, ibv_wc& completion, bool& kept) {
  const auto found = qps_.find(completion.qp_num);
  const Side side = sideOf(completion);
  if (found != qps_.end()) {
    QueuePair& qp = found->second;
    if (qp.broken() && side != Side::Receive) {
      flush(completion, qp);
    } else {
      for (const auto& one : rules_)
        if (strike(one, held, completion, qp, kept)) break;
    }
  }
  if (kept && held.queueBehind(completion, side)) kept = false;
}

bool Device::strike(const std::shared_ptr<ActiveRule>& one, Held& held, ibv_wc& completion, QueuePair& qp, bool& kept) {
  const VerbsRule& rule = one->rule;
  if (rule.action == VerbsAction::Fail || rule.action == VerbsAction::Event) return false;
  if (rule.action == VerbsAction::Error && (completion.status != IBV_WC_SUCCESS || qp.broken())) return false;
  const Side side = sideOf(completion);
  const auto opcode = side == Side::Unknown ? std::nullopt : std::optional<int>(completion.opcode);
  const int64_t now = monotonicNs();
  if (!rule.matches({completion.qp_num, qp.peer, opcode}) || !one->strikes(now)) return false;
  int64_t due = now + static_cast<int64_t>(rule.delayNs);
  switch (rule.action) {
    case VerbsAction::Error:
      breakDown(completion, rule.status, qp);
      return true;
    case VerbsAction::Lost:
      kept = false;
      return true;
    case VerbsAction::Duplicate:
      if (!held.queueBehind(completion, side)) held.push(completion, side, now, one);
      held.push(completion, side, now, one);
      break;
    case VerbsAction::Slow:
      due = std::max(due, qp.nextNs);
      if (rule.perS != 0) qp.nextNs = due + static_cast<int64_t>(1'000'000'000 / rule.perS);
      [[fallthrough]];
    default:
      held.push(completion, side, due, one);
  }
  kept = false;
  return true;
}

/// As an adapter does: the queue pair is in the error state before anybody sees why. What was sent may have come
/// although it says that it failed. What was received has been acknowledged and stays well: the next that waits fails.
void Device::breakDown(ibv_wc& completion, int status, QueuePair& qp) {
  if (!qp.broken()) broken_++;
  if (sideOf(completion) == Side::Receive) {
    qp.owed = status;
  } else {
    qp.sendBroken = true;
    fail(completion, status);
  }
  ibv_qp_attr attr{};  // NOLINT(bugprone-invalid-enum-default-initialization): the mask says what counts
  attr.qp_state = IBV_QPS_ERR;
  (void)driver_.modifyQp(qp.handle, &attr, IBV_QP_STATE);
}

/// Behind one that failed.
void Device::flush(ibv_wc& completion, QueuePair& qp) {
  const bool first = qp.owed != 0 && completion.status == IBV_WC_WR_FLUSH_ERR;
  if (first) {
    fail(completion, qp.owed);
    qp.owed = 0;
    if (!qp.broken()) broken_--;
  } else if (completion.status == IBV_WC_SUCCESS && qp.sendBroken) {
    fail(completion, IBV_WC_WR_FLUSH_ERR);
  }
}

int Device::errorOf(VerbsCall call, const ibv_qp* qp) {
  const std::lock_guard<std::mutex> lock(mutex_);
  VerbsSubject subject;
  if (qp != nullptr) {
    subject.qp = qp->qp_num;
    const auto found = qps_.find(qp->qp_num);
    if (found != qps_.end()) subject.peer = found->second.peer;
  }
  for (const auto& one : rules_) {
    const VerbsRule& rule = one->rule;
    if (rule.action != VerbsAction::Fail || rule.call != call || !rule.matches(subject)) continue;
    if (one->strikes(monotonicNs())) return rule.error;
  }
  return 0;
}

void Device::modified(ibv_qp* qp, const ibv_qp_attr& attr, int mask) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if ((mask & IBV_QP_STATE) != 0 && attr.qp_state == IBV_QPS_RESET) drop(qp->qp_num);
  QueuePair& found = qps_[qp->qp_num];
  found.handle = qp;
  if ((mask & IBV_QP_AV) == 0 || attr.ah_attr.is_global == 0) return;
  Ip peer{};
  std::memcpy(peer.data(), attr.ah_attr.grh.dgid.raw, peer.size());
  found.peer = peer;
}

void Device::forget(const ibv_qp* qp) {
  const std::lock_guard<std::mutex> lock(mutex_);
  drop(qp->qp_num);
}

void Device::forget(const ibv_cq* cq) {
  const std::lock_guard<std::mutex> lock(mutex_);
  held_.erase(cq);
  refresh();
}

/// What a queue pair leaves in completion queues goes with it.
void Device::drop(uint32_t qp) {
  const auto found = qps_.find(qp);
  if (found != qps_.end() && found->second.broken()) broken_--;
  if (found != qps_.end()) qps_.erase(found);
  for (auto it = held_.begin(); it != held_.end();) {
    it->second.drop(qp);
    it = it->second.empty() ? held_.erase(it) : std::next(it);
  }
  refresh();
}

void Device::refresh() { active_ = !rules_.empty() || !held_.empty() || broken_ != 0; }

void Device::inChild() {
  new (&mutex_) std::mutex;
  events_.inChild();
}

}  // namespace r2cc::faults
