// One rank's part in a switch, without any I/O: messages of the coordinator come in, calls to Actions go out.
#pragma once

#include <cstdint>
#include <string>

#include "agree/gate.h"
#include "agree/protocol/message.h"

namespace r2cc::agree {

class Member {
 public:
  enum class Phase : uint8_t {
    Free,      // nothing runs
    Working,   // offered: the caller's Prepare is at it
    Ready,     // said so, promised nothing
    Promised,  // enters nothing beyond its promise
    Over,      // somebody left: what is in force stays so
  };
  enum class Event : uint8_t { Offered, Able, Unable, Prepared, Committed, Withdrawn, Left };
  /// Every transition there is. What a phase does not expect changes nothing.
  static Phase next(Phase phase, Event event);

  class Actions {
   public:
    virtual ~Actions() = default;
    virtual void send(const Message& message) = 0;                   // to the coordinator
    virtual void work(uint64_t round, const std::string& text) = 0;  // answered by worked()
    virtual Promise promise(uint64_t index, int64_t windowNs) = 0;
    virtual void commit(Decision decision) = 0;
    virtual void withdraw(const std::string& why) = 0;
    virtual void warn(const std::string& line) = 0;  // of what a user has to mend
    virtual void fail(const AgreementBroken& why) = 0;
    virtual size_t pending() = 0;  // as Gate::pending
  };

  explicit Member(Actions& actions) : actions_(actions) {}

  void on(const Message& message);
  /// `text`: why not; or what must be alike on all ranks, with its hash.
  void worked(uint64_t round, bool able, const std::string& text, uint64_t hash = 0);
  /// This rank leaves, or aborts.
  void leave(bool inGoodOrder);

  Phase phase() const { return phase_; }
  bool ended() const { return phase_ == Phase::Over; }

 private:
  bool advance(Event event);
  void onOffer(const Message& message);
  void onPrepare(const Message& message);
  void onCommit(const Message& message);
  void onWithdraw(const Message& message);
  void onBroken(const Message& message);

  Actions& actions_;
  Phase phase_ = Phase::Free;
  uint64_t round_ = 0;
  std::string text_;
};

}  // namespace r2cc::agree
