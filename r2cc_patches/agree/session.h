// One agreement on the loop's thread: the member, on rank 0 also the coordinator, and the transport between them.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "agree/agreement.h"
#include "agree/net/loop.h"
#include "agree/net/transport.h"
#include "agree/protocol/coordinator.h"
#include "agree/protocol/member.h"
#include "base/worker.h"

namespace r2cc::agree {

class Session : public std::enable_shared_from_this<Session>,
                private Timed,
                public Upward,
                private Coordinator::Actions,
                private Member::Actions {
 public:
  Session(Loop& loop, Worker& worker, const Options& options, std::vector<Card> cards, Decide decide, Prepare prepare);
  ~Session() override = default;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Gate& gate() { return gate_; }
  /// Any thread.
  void report(std::string blob);
  Stats stats() const;
  AgreementBroken aborted() const;

  // ---- the loop's thread
  /// `listener` on rank 0 only.
  void start(Fd listener);
  void abort();
  /// Tells the others.
  void leave();
  /// After leave(): it lives until the others know, or need not, or Options::goodbye is over. It calls nothing of the
  /// caller's any more.
  void end();

  // Upward, for its transport
  void received(int rank, const Message& message) override;
  void unreached(int rank, const std::string& cause, bool closed) override;
  void reached(int rank, bool again) override;
  void refused() override;
  bool ended() const override;

 private:
  // Timed
  int64_t deadline() const override;
  void tick(int64_t now) override;
  // Coordinator::Actions
  void send(int rank, const Message& message) override;
  void decide(const std::vector<std::string>& reports) override;
  uint64_t ahead(int64_t windowNs) override { return gate_.ahead(windowNs); }
  bool able() override;
  void log(const std::string& line) override;
  // Member::Actions
  void send(const Message& message) override;
  void work(uint64_t round, const std::string& text) override;
  Promise promise(uint64_t index, int64_t windowNs) override { return gate_.promise(index, windowNs); }
  void commit(Decision decision) override;
  void withdraw(const std::string& why) override;
  void warn(const std::string& line) override;
  void fail(const AgreementBroken& why) override;
  size_t pending() override { return gate_.pending(); }

  void stop();
  void takeReport();
  void passOn();
  void drainOwn();
  uint64_t count(uint64_t Stats::* what);
  /// With this session, on the loop's thread, unless it was stopped meanwhile.
  void later(const std::function<void(Session&)>& what);

  Loop& loop_;
  Worker& worker_;
  const Options options_;
  const std::vector<Card> cards_;
  const Decide decide_;
  const Prepare prepare_;
  Gate gate_;
  Member member_;
  std::unique_ptr<Coordinator> coordinator_;  // on rank 0
  std::unique_ptr<Transport> transport_;
  // What rank 0 says to itself, in order: (to the coordinator, message).
  std::deque<std::pair<bool, Message>> own_;
  std::optional<std::string> toReport_;
  int64_t reportAt_ = 0;
  uint64_t nextRefusal_ = 1;  // to be said
  bool saidUnreached_ = false;
  std::shared_ptr<Session> ending_;  // itself, while it ends
  int64_t endsAt_ = 0;               // 0: it does not end

  mutable std::mutex mutex_;  // both below
  Stats stats_;
  std::optional<std::string> newReport_;
  std::string lastReport_;
};

}  // namespace r2cc::agree
