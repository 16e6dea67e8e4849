// Rank 0's part: when a switch starts, whether it is committed, and at which group. Without any I/O, thread or clock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agree/protocol/message.h"

namespace r2cc::agree {

class Coordinator {
 public:
  enum class Phase : uint8_t {
    Idle,
    Deciding,   // the caller's Decide is at it
    Offering,   // some have not said Ready
    Preparing,  // some have not promised
    Over,       // somebody left: no switch any more
  };
  enum class Event : uint8_t { Wanted, Unchanged, Proposed, AllReady, AllAgree, Refused, Late, Differ, Left };
  /// Every transition there is. What a phase does not expect changes nothing.
  static Phase next(Phase phase, Event event);

  class Actions {
   public:
    virtual ~Actions() = default;
    virtual void send(int rank, const Message& message) = 0;  // must not come back into the coordinator at once
    virtual void decide(const std::vector<std::string>& reports) = 0;  // answered by decided()
    virtual uint64_t ahead(int64_t windowNs) = 0;                      // as Gate::ahead, of rank 0
    virtual bool able() = 0;  // everybody is connected, and not too many decisions wait
    virtual void log(const std::string& line) = 0;
  };
  struct Timing {
    int64_t prepareNs = 0, promiseNs = 0, gatherNs = 0, quietNs = 0;
  };
  static constexpr int64_t kNever = INT64_MAX;

  Coordinator(Actions& actions, int ranks, const Timing& timing);

  void on(int rank, const Message& message, int64_t now);
  /// Empty: no change. Otherwise a round starts.
  void decided(const std::string& proposal, int64_t now);
  /// A running round is withdrawn. The next one waits until able().
  void unreached(int rank, const std::string& address, const std::string& cause, int64_t now);
  void tick(int64_t now);
  /// When tick() has something to do.
  int64_t deadline() const;

  Phase phase() const { return phase_; }
  bool ended() const { return phase_ == Phase::Over; }

 private:
  struct Answer {
    bool given = false;
    Message message;
  };

  bool advance(Event event);
  /// Where not, it is looked at again soon.
  bool able(int64_t now);
  void report(int rank, const std::string& text, int64_t now);
  void answer(int rank, const Message& message, int64_t now);
  void startPreparing(int64_t now);
  void judge(int64_t now);
  void commit(int64_t now);
  /// `all`: every rank says it.
  void fail(Event event, const std::string& why, int64_t now, bool all = false);
  void leave(int rank, bool inGoodOrder);
  std::string difference() const;
  std::string disagreement() const;
  std::string silent() const;
  bool allAnswered() const;
  void broadcast(const Message& message);

  Actions& actions_;
  const Timing timing_;
  Phase phase_ = Phase::Idle;
  std::vector<std::string> reports_;
  bool changed_ = false;   // a report came that no decision has seen
  int64_t dueAt_ = 0;      // of the next decision
  int64_t restUntil_ = 0;  // no decision before
  unsigned failures_ = 0;  // in a row
  uint64_t round_ = 0, epoch_ = 0;
  std::string proposal_, committed_, logged_;
  std::vector<Answer> answers_;
  int64_t startedAt_ = 0, lateAt_ = 0;
  int64_t windowNs_;
};

}  // namespace r2cc::agree
