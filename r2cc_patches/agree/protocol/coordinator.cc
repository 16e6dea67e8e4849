#include "agree/protocol/coordinator.h"

#include <algorithm>
#include <utility>

#include "agree/agreement.h"
#include "base/clock.h"
#include "base/json/text.h"

namespace r2cc::agree {
namespace {

// What a rank may enter between Prepare and Commit: several times what that took the last time.
constexpr int64_t kLeastWindowNs = msToNs(50), kMostWindowNs = msToNs(2000);
constexpr int64_t kRounds = 8;
constexpr uint64_t kMostGroup = UINT64_MAX / 2;
constexpr int64_t kNotAbleNs = msToNs(50);
constexpr int64_t kMostRestNs = msToNs(60000);

Message message(Type type, uint64_t round) {
  Message made;
  made.type = type;
  made.round = round;
  return made;
}

std::string text(const Mark& mark) {
  return "history " + hex(mark.hash) + " and " + std::to_string(mark.captures) + " captured";
}

}  // namespace

Coordinator::Coordinator(Actions& actions, int ranks, const Timing& timing)
    : actions_(actions), timing_(timing), reports_(ranks), answers_(ranks), windowNs_(kLeastWindowNs) {}

Coordinator::Phase Coordinator::next(Phase phase, Event event) {
  if (phase == Phase::Over || event == Event::Left) return Phase::Over;
  const bool running = phase == Phase::Offering || phase == Phase::Preparing;
  switch (event) {
    case Event::Wanted:
      return phase == Phase::Idle ? Phase::Deciding : phase;
    case Event::Unchanged:
      return phase == Phase::Deciding ? Phase::Idle : phase;
    case Event::Proposed:
      return phase == Phase::Deciding ? Phase::Offering : phase;
    case Event::AllReady:
      return phase == Phase::Offering ? Phase::Preparing : phase;
    case Event::AllAgree:
    case Event::Differ:
      return phase == Phase::Preparing ? Phase::Idle : phase;
    case Event::Refused:
    case Event::Late:
      return running ? Phase::Idle : phase;
    case Event::Left:
      break;
  }
  return phase;
}

bool Coordinator::advance(Event event) {
  const Phase before = std::exchange(phase_, next(phase_, event));
  return phase_ != before;
}

void Coordinator::on(int rank, const Message& message, int64_t now) {
  switch (message.type) {
    case Type::Report:
      return report(rank, message.text, now);
    case Type::Ready:
    case Type::Promised:
      return answer(rank, message, now);
    case Type::Leave:
      return leave(rank, message.ok != 0);
    default:
      return;  // not for a coordinator
  }
}

void Coordinator::report(int rank, const std::string& text, int64_t now) {
  std::string& known = reports_[static_cast<size_t>(rank)];
  if (ended() || known == text || text.size() > kMaxReport) return;
  known = text;
  if (changed_) return;  // what is newest when it is looked at counts
  changed_ = true;
  dueAt_ = std::max(now + timing_.gatherNs, restUntil_);
}

void Coordinator::tick(int64_t now) {
  const bool running = phase_ == Phase::Offering || phase_ == Phase::Preparing;
  if (running && now >= lateAt_) fail(Event::Late, silent(), now);
  if (phase_ != Phase::Idle || !changed_ || now < dueAt_) return;
  if (!able(now)) return;
  changed_ = false;
  if (advance(Event::Wanted)) actions_.decide(reports_);
}

bool Coordinator::able(int64_t now) {
  if (actions_.able()) return true;
  dueAt_ = now + kNotAbleNs;
  return false;
}

int64_t Coordinator::deadline() const {
  if (phase_ == Phase::Offering || phase_ == Phase::Preparing) return lateAt_;
  return phase_ == Phase::Idle && changed_ ? dueAt_ : kNever;
}

void Coordinator::decided(const std::string& proposal, int64_t now) {
  if (phase_ != Phase::Deciding) return;
  if (proposal.size() > kMaxProposal) {
    actions_.log("no switch: a proposal of " + std::to_string(proposal.size()) + " bytes is too long");
  }
  if (proposal.empty() || proposal == committed_ || proposal.size() > kMaxProposal) {
    restUntil_ = now + timing_.gatherNs;
    dueAt_ = std::max(dueAt_, restUntil_);
    advance(Event::Unchanged);
    return;
  }
  if (!able(now)) {  // any more: decided again when it is
    changed_ = true;
    advance(Event::Unchanged);
    return;
  }
  advance(Event::Proposed);
  proposal_ = proposal;
  answers_.assign(answers_.size(), {});
  lateAt_ = now + timing_.prepareNs;
  Message offer = message(Type::Offer, ++round_);
  offer.text = proposal_;
  broadcast(offer);
}

void Coordinator::answer(int rank, const Message& message, int64_t now) {
  const Type wanted = phase_ == Phase::Offering ? Type::Ready : Type::Promised;
  const bool running = phase_ == Phase::Offering || phase_ == Phase::Preparing;
  if (!running || message.round != round_ || message.type != wanted) return;  // of a round that was withdrawn
  if (wanted == Type::Ready && message.ok == 0) {
    return fail(Event::Refused, "rank " + std::to_string(rank) + " cannot: " + message.text, now);
  }
  if (message.group > kMostGroup)
    return;  // no group that anybody will ever enter: a broken rank counts as a silent one
  answers_[static_cast<size_t>(rank)] = {true, message};
  if (!allAnswered()) return;
  if (wanted == Type::Ready) {
    const std::string different = disagreement();
    if (!different.empty()) return fail(Event::Refused, "the ranks' plans differ: " + different, now, true);
    startPreparing(now);
  } else {
    judge(now);
  }
}

void Coordinator::startPreparing(int64_t now) {
  advance(Event::AllReady);
  answers_.assign(answers_.size(), {});
  startedAt_ = now;
  lateAt_ = now + timing_.promiseNs;
  Message prepare = message(Type::Prepare, round_);
  prepare.group = actions_.ahead(windowNs_);
  prepare.number = static_cast<uint64_t>(windowNs_);
  broadcast(prepare);
}

void Coordinator::judge(int64_t now) {
  windowNs_ = std::clamp((now - startedAt_) * kRounds, kLeastWindowNs, kMostWindowNs);
  const std::string different = difference();
  if (different.empty()) return commit(now);
  fail(Event::Differ, different, now);
}

std::string Coordinator::disagreement() const {
  std::vector<Stated> stated;
  stated.reserve(answers_.size());
  for (const Answer& answer : answers_) stated.push_back({answer.message.text, "", answer.message.number});
  return agree::difference(stated);
}

std::string Coordinator::difference() const {
  std::vector<std::vector<Mark>> lists;
  lists.reserve(answers_.size());
  for (const Answer& answer : answers_) lists.push_back(answer.message.marks);
  const std::vector<Mark> common = newestCommon(lists);
  if (common.empty()) return "the ranks have no group in common that they remember";
  for (size_t rank = 1; rank < common.size(); rank++) {
    if (common[rank] == common[0]) continue;
    return "at group " + std::to_string(common[0].group) + " rank 0 has " + text(common[0]) + ", rank " +
           std::to_string(rank) + " has " + text(common[rank]);
  }
  return "";
}

// No rank enters a group after its promise before it hears of this; so nobody has entered the one after the last of
// the promises, and everybody hears of it before it does.
void Coordinator::commit(int64_t now) {
  uint64_t last = 0;
  for (const Answer& answer : answers_) last = std::max(last, answer.message.group);
  advance(Event::AllAgree);
  committed_ = proposal_;
  failures_ = 0;
  restUntil_ = now + timing_.quietNs;
  dueAt_ = std::max(dueAt_, restUntil_);
  Message made = message(Type::Commit, round_);
  made.group = last + 1;
  made.number = ++epoch_;
  broadcast(made);
}

void Coordinator::fail(Event event, const std::string& why, int64_t now, bool all) {
  if (!advance(event)) return;
  Message withdraw = message(Type::Withdraw, round_);
  withdraw.text = why;
  withdraw.ok = all ? 1 : 0;
  broadcast(withdraw);
  failures_ = std::min(failures_ + 1, 16U);
  restUntil_ = now + std::min(timing_.quietNs << failures_, kMostRestNs);
  dueAt_ = std::max(dueAt_, restUntil_);
  // Who was late may come in time the next time. Who cannot, or differs, will say the same: that takes a new report.
  if (event == Event::Late) changed_ = true;
  if (std::exchange(logged_, why) != why && !all) actions_.log("no switch: " + why);
}

void Coordinator::leave(int rank, bool inGoodOrder) {
  const bool running = phase_ == Phase::Offering || phase_ == Phase::Preparing;
  if (!advance(Event::Left)) return;
  Message left = message(Type::Left, round_);
  left.number = static_cast<uint64_t>(rank);
  left.text = "rank " + std::to_string(rank) + (inGoodOrder ? " left" : " aborted");
  if (running) {
    Message withdraw = message(Type::Withdraw, round_);
    withdraw.text = left.text;
    broadcast(withdraw);
  }
  broadcast(left);
}

void Coordinator::unreached(int rank, const std::string& address, const std::string& cause, int64_t now) {
  if (phase_ != Phase::Offering && phase_ != Phase::Preparing) return;
  fail(Event::Late, "rank " + std::to_string(rank) + " (" + address + "): " + cause, now);
}

std::string Coordinator::silent() const {
  std::string ranks;
  size_t count = 0;
  for (size_t rank = 0; rank < answers_.size(); rank++) {
    if (answers_[rank].given) continue;
    if (++count <= 8) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  }
  if (count > 8) ranks += " and " + std::to_string(count - 8) + " more";
  return std::string(phase_ == Phase::Offering ? "not ready" : "no promise") + " in time from rank " + ranks;
}

bool Coordinator::allAnswered() const {
  return std::all_of(answers_.begin(), answers_.end(), [](const Answer& answer) { return answer.given; });
}

void Coordinator::broadcast(const Message& message) {
  for (size_t rank = 0; rank < reports_.size(); rank++) actions_.send(static_cast<int>(rank), message);
}

}  // namespace r2cc::agree
