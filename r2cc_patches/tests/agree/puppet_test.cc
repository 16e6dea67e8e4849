// One rank of three does not do its part.
#include "agree/world/puppet.h"

#include <cerrno>
#include <cstring>

#include "check.h"

using namespace r2cc::agree;
using namespace r2cc::agree::test;

namespace {

void quick(Options& options) {
  options.prepare = Ms(150), options.promise = Ms(300);
  options.closed = Ms(200), options.hold = Ms(1000);
}

/// A thread that enters until it is told to stop, or until it throws.
class Enqueuer {
 public:
  explicit Enqueuer(Agreement& agreement) : thread_([this, &agreement] { run(agreement); }) {}
  ~Enqueuer() { (void)stop(); }
  Enqueuer(const Enqueuer&) = delete;
  Enqueuer& operator=(const Enqueuer&) = delete;
  uint64_t entered() const { return entered_; }
  bool ended() const { return ended_; }
  /// What was thrown.
  std::string stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return thrown_;
  }
  bool switched() const { return switched_; }

 private:
  void run(Agreement& agreement) {
    try {
      for (; !stop_; entered_++) {
        switched_ = agreement.enter(1).epoch != 0;
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    } catch (const AgreementBroken& broken) {
      thrown_ = broken.what();
    }
    ended_ = true;
  }
  std::atomic<uint64_t> entered_{0};
  std::atomic<bool> stop_{false}, ended_{false}, switched_{false};
  std::string thrown_;
  std::thread thread_;
};

bool goesOn(const Enqueuer& enqueuer) {
  const uint64_t now = enqueuer.entered();
  return eventually([&] { return enqueuer.entered() > now + 100; });
}

/// By both. Who was late is asked again, so that it may have been more than once before somebody looks.
bool withdrawn(Stage& stage) { return stage[0].stats().withdrawn > 0 && stage[1].stats().withdrawn > 0; }

}  // namespace

TEST(agree_who_never_says_ready_holds_nobody_up) {
  Stage stage(3, quick, silentFrom(Type::Ready));
  Enqueuer zero(stage[0]), one(stage[1]);
  stage[1].report("x");
  CHECK(eventually([&] { return withdrawn(stage); }));
  CHECK(goesOn(zero) && goesOn(one));
  CHECK_EQ(stage[0].stats().waits + stage[1].stats().waits, 0U);
  CHECK_EQ(stage[1].stats().lastWithdrawal, "not ready in time from rank 2");
  CHECK(!zero.switched());
}

TEST(agree_who_never_promises_is_withdrawn_by_all_together) {
  Stage stage(3, [](Options& options) { quick(options), options.promise = Ms(600); }, silentFrom(Type::Promised));
  Enqueuer zero(stage[0]), one(stage[1]);
  CHECK(goesOn(zero) && goesOn(one));
  stage[1].report("x");
  CHECK(eventually([&] { return stage[0].stats().waits == 1 && stage[1].stats().waits == 1; }));
  const uint64_t at = one.entered();
  std::this_thread::sleep_for(Ms(100));
  const uint64_t later = one.entered();
  CHECK(later == at || stage[1].stats().withdrawn > 0);  // it promised: it stands there, as long as that holds
  CHECK(goesOn(zero) && goesOn(one));
  CHECK(eventually([&] { return withdrawn(stage); }));
  CHECK_EQ(stage[1].stats().lastWithdrawal, "no promise in time from rank 2");
  CHECK(stage[1].stats().waitedNs > 100000000);
  CHECK(!one.switched());
}

TEST(agree_who_dies_before_its_promise_is_waited_for_no_longer_and_named) {
  Stage stage(3, [](Options& options) { quick(options), options.promise = Ms(60000); }, silentFrom(Type::Promised));
  Enqueuer zero(stage[0]), one(stage[1]);
  stage[1].report("x");
  CHECK(eventually([&] { return stage[0].stats().waits == 1 && stage[1].stats().waits == 1; }));
  stage.puppet().stop();
  CHECK(eventually([&] { return withdrawn(stage); }));
  CHECK(goesOn(zero) && goesOn(one));
  for (const int rank : {0, 1}) {
    const std::string what = stage[rank].stats().lastWithdrawal;
    // TCP says that it was reset where the puppet had not read all that was sent to it.
    const auto says = [&](const std::string& cause) {
      return what.find("rank 2 (a puppet): " + cause + ", and not back for ") != std::string::npos;
    };
    CHECK(says("closed by the other end") || says(std::strerror(ECONNRESET)) || says(std::strerror(EPIPE)));
  }
}

TEST(agree_abort_while_waiting_ends_it_here_and_withdraws_there) {
  Stage stage(3, [](Options& options) { quick(options), options.promise = Ms(60000); }, silentFrom(Type::Promised));
  Enqueuer zero(stage[0]), one(stage[1]);
  stage[1].report("x");
  CHECK(eventually([&] { return stage[0].stats().waits == 1 && stage[1].stats().waits == 1; }));
  stage[1].abort();
  CHECK(eventually([&] { return one.ended(); }));
  CHECK(one.stop().find("rank 1 (127.0.0.1, host ") != std::string::npos);
  CHECK(goesOn(zero));
  CHECK_EQ(stage[0].stats().lastWithdrawal, "rank 1 aborted");
  const auto heard = stage.puppet().heard();
  CHECK(heard.size() >= 2 && heard[heard.size() - 2].type == Type::Withdraw && heard.back().type == Type::Left);
}

TEST(agree_who_promises_the_impossible_counts_as_silent) {
  Stage stage(3, quick, [](const Message& message) {
    Message answer = silentFrom(Type::Ping)(message);
    if (answer.type == Type::Promised) answer.group = UINT64_MAX;
    return answer;
  });
  stage[1].report("x");
  CHECK(eventually([&] { return withdrawn(stage); }));
  CHECK_EQ(stage[1].stats().switches, 0U);
}

TEST(agree_a_genuine_rank_that_talks_nonsense_fails_only_its_connection) {
  const auto silent = silentFrom(Type::Ready);
  for (int what = 0; what < 4; what++) {
    Stage stage(3, [](Options& options) { options.closed = Ms(60000); }, silent);
    Message message;
    if (what == 0) message.type = Type::Commit, stage.puppet().say(message);  // not for a coordinator: ignored
    if (what == 1) message.type = Type::Promised, message.round = 1, stage.puppet().say(message);
    if (what == 2) stage.puppet().sayRaw({7, 0, message});   // where is the first?
    if (what == 3) stage.puppet().sayRaw({0, 99, message});  // acknowledges what was never said
    if (what >= 2) CHECK(eventually([&] { return stage.puppet().hungUp(); }));
    for (int i = 0; i < 100; i++) stage[0].enter(1), stage[1].enter(1);
    CHECK_EQ(stage[0].stats().switches, 0U);
  }
}
