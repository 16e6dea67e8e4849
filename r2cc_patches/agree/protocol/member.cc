#include "agree/protocol/member.h"

#include <utility>

namespace r2cc::agree {
namespace {

// Decisions that wait for their group. The coordinator stops long before; a rank this far behind cannot follow.
constexpr size_t kMostPending = 64;

AgreementBroken brokenBy(const Message& message) {
  const size_t end = message.text.find('\n');
  const std::string cause = end == std::string::npos ? "" : message.text.substr(end + 1);
  return AgreementBroken(static_cast<int>(message.number), message.text.substr(0, end), cause);
}

}  // namespace

Member::Phase Member::next(Phase phase, Event event) {
  if (phase == Phase::Over || event == Event::Left) return Phase::Over;
  switch (event) {
    case Event::Offered:
      return phase == Phase::Free ? Phase::Working : phase;
    case Event::Able:
      return phase == Phase::Working ? Phase::Ready : phase;
    case Event::Unable:
      return phase == Phase::Working ? Phase::Free : phase;
    case Event::Prepared:
      return phase == Phase::Ready ? Phase::Promised : phase;
    case Event::Committed:
      return phase == Phase::Promised ? Phase::Free : phase;
    case Event::Withdrawn:
      return Phase::Free;
    case Event::Left:
      break;
  }
  return phase;
}

bool Member::advance(Event event) {
  const Phase before = std::exchange(phase_, next(phase_, event));
  return phase_ != before;
}

void Member::on(const Message& message) {
  switch (message.type) {
    case Type::Offer:
      return onOffer(message);
    case Type::Prepare:
      return onPrepare(message);
    case Type::Commit:
      return onCommit(message);
    case Type::Withdraw:
      return onWithdraw(message);
    case Type::Left:
      if (advance(Event::Left)) actions_.withdraw(message.text);
      return;
    case Type::Broken:
      return onBroken(message);
    default:
      return;  // not for a member
  }
}

void Member::onOffer(const Message& message) {
  if (!advance(Event::Offered)) return;
  round_ = message.round;
  text_ = message.text;
  if (actions_.pending() > kMostPending) return worked(round_, false, "it is too far behind");
  actions_.work(round_, text_);
}

void Member::worked(uint64_t round, bool able, const std::string& text, uint64_t hash) {
  if (round != round_ || !advance(able ? Event::Able : Event::Unable)) return;  // withdrawn meanwhile
  Message answer;
  answer.type = Type::Ready;
  answer.round = round;
  answer.ok = able ? 1 : 0;
  answer.text = text;
  answer.number = hash;
  actions_.send(answer);
}

void Member::onPrepare(const Message& message) {
  if (message.round != round_ || !advance(Event::Prepared)) return;
  const Promise promise = actions_.promise(message.group, static_cast<int64_t>(message.number));
  Message answer;
  answer.type = Type::Promised;
  answer.round = round_;
  answer.group = promise.last;
  answer.number = promise.entered;
  answer.marks = promise.history.marks();
  actions_.send(answer);
}

void Member::onCommit(const Message& message) {
  if (message.round != round_ || !advance(Event::Committed)) return;
  actions_.commit({message.number, message.group, std::move(text_)});
}

void Member::onWithdraw(const Message& message) {
  if (message.round != round_) return;
  if (message.ok != 0) actions_.warn("no switch: " + message.text);  // also where this rank was not able anyway
  if (advance(Event::Withdrawn)) actions_.withdraw(message.text);
}

/// A rank 0 of an earlier build switches no more after that. It tells nobody how a round ended that was running.
void Member::onBroken(const Message& message) {
  const bool bound = phase_ == Phase::Promised;
  if (advance(Event::Left) && bound) actions_.fail(brokenBy(message));
}

void Member::leave(bool inGoodOrder) {
  if (ended()) return;
  Message message;
  message.type = Type::Leave;
  message.ok = inGoodOrder ? 1 : 0;
  actions_.send(message);
  if (advance(Event::Left)) actions_.withdraw("this rank leaves");
}

}  // namespace r2cc::agree
