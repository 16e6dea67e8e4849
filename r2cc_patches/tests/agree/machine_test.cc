// The two state machines alone: every phase, every event.
#include <deque>

#include "agree/agreement.h"
#include "agree/protocol/coordinator.h"
#include "agree/protocol/member.h"
#include "check.h"

using namespace r2cc::agree;

namespace {

constexpr int64_t kMs = 1000000;

/// Keeps what the coordinator wants.
struct Desk : Coordinator::Actions {
  void send(int rank, const Message& message) override {
    if (rank == 0) sent.push_back(message);
  }
  void decide(const std::vector<std::string>& reports) override { asked = reports; }
  uint64_t ahead(int64_t) override { return 500; }
  bool able() override { return isAble; }
  void log(const std::string& line) override { logged += line + "\n"; }

  Type last() const { return sent.empty() ? Type::Ping : sent.back().type; }

  std::vector<Message> sent;
  std::vector<std::string> asked;
  std::string logged;
  bool isAble = true;
};

struct Coordinating {
  Desk desk;
  Coordinator machine{desk, 3, {1000 * kMs, 100 * kMs, 10 * kMs, 50 * kMs}};
  int64_t now = 0;

  void say(int rank, Type type, uint64_t round, uint64_t group = 0, const std::string& text = "") {
    Message message;
    message.type = type;
    message.round = round, message.group = group, message.text = text;
    message.ok = 1;
    message.marks = {{}};
    machine.on(rank, message, now);
  }
  void pass(int64_t ms) {
    now += ms * kMs;
    machine.tick(now);
  }
  /// Up to Offering of round 1.
  void offer() {
    say(2, Type::Report, 0, 0, "x");
    pass(11);
    machine.decided("plan", now);
  }
  void prepare(uint64_t round = 1) {
    for (int rank = 0; rank < 3; rank++) say(rank, Type::Ready, round);
  }
};

/// Keeps what the member wants.
struct Hand : Member::Actions {
  void send(const Message& message) override { sent.push_back(message); }
  void work(uint64_t round, const std::string&) override { worked = round; }
  Promise promise(uint64_t index, int64_t) override { return {10, index + 7, {}}; }
  void commit(Decision decision) override { commits.push_back(decision); }
  void withdraw(const std::string& why) override { withdrawn += why + "\n"; }
  void warn(const std::string& line) override { warned += line + "\n"; }
  void fail(const AgreementBroken& why) override { failed = why.what(); }
  size_t pending() override { return 0; }

  std::vector<Message> sent;
  uint64_t worked = 0;
  std::vector<Decision> commits;
  std::string withdrawn, failed, warned;
};

Message message(Type type, uint64_t round, uint64_t group = 0, uint64_t number = 0, const std::string& text = "") {
  Message made;
  made.type = type;
  made.round = round, made.group = group, made.number = number, made.text = text;
  return made;
}

}  // namespace

TEST(agree_coordinator_commits_at_the_most_promised_and_one) {
  Coordinating c;
  c.offer();
  CHECK(c.desk.last() == Type::Offer);
  CHECK_EQ(c.desk.asked[2], "x");
  c.prepare();
  CHECK(c.desk.last() == Type::Prepare);
  CHECK_EQ(c.desk.sent.back().group, 500U);
  c.say(0, Type::Promised, 1, 500), c.say(1, Type::Promised, 1, 1234);
  CHECK(c.desk.last() == Type::Prepare);  // not before the last one
  c.say(2, Type::Promised, 1, 600);
  CHECK(c.desk.last() == Type::Commit);
  CHECK_EQ(c.desk.sent.back().group, 1235U);
  CHECK_EQ(c.desk.sent.back().number, 1U);
}

TEST(agree_coordinator_who_never_says_ready_is_not_waited_for) {
  Coordinating c;
  c.offer();
  c.say(0, Type::Ready, 1);
  c.pass(999);
  CHECK(c.machine.phase() == Coordinator::Phase::Offering);
  c.pass(2);
  CHECK(c.machine.phase() == Coordinator::Phase::Idle);
  CHECK(c.desk.last() == Type::Withdraw);
  CHECK_EQ(c.desk.logged, "no switch: not ready in time from rank 1, 2\n");
}

TEST(agree_coordinator_who_never_promises_lets_all_go_on) {
  Coordinating c;
  c.offer(), c.prepare();
  c.say(0, Type::Promised, 1, 500), c.say(1, Type::Promised, 1, 500);
  c.pass(101);
  CHECK(c.desk.last() == Type::Withdraw);
  CHECK_EQ(c.desk.logged, "no switch: no promise in time from rank 2\n");
  c.say(2, Type::Promised, 1, 500);  // too late: it was withdrawn
  CHECK(c.desk.last() == Type::Withdraw);
  c.machine.tick(c.machine.deadline());  // tried again, later
  CHECK(c.machine.phase() == Coordinator::Phase::Deciding);
}

TEST(agree_coordinator_plans_that_differ_are_withdrawn_and_all_say_so) {
  for (const bool hashes : {false, true}) {
    Coordinating c;
    c.offer();
    for (int rank = 0; rank < 3; rank++) {
      Message ready = message(Type::Ready, 1, 0, hashes && rank == 1 ? 8 : 7, hashes || rank != 1 ? "a=1\n" : "a=2\n");
      ready.ok = 1;
      c.machine.on(rank, ready, c.now);
    }
    CHECK(c.machine.phase() == Coordinator::Phase::Idle);
    CHECK(c.desk.last() == Type::Withdraw);
    CHECK_EQ(c.desk.sent.back().ok, 1);  // all say it, and rank 0 with them
    CHECK_EQ(c.desk.logged, "");
    const std::string said = c.desk.sent.back().text;
    CHECK_EQ(said, hashes ? "the ranks' plans differ: the hash of it all is 0000000000000007 on ranks 0, 2, "
                            "0000000000000008 on rank 1"
                          : "the ranks' plans differ: a is 1 on ranks 0, 2, 2 on rank 1");
    c.pass(120000);
    CHECK(c.machine.phase() == Coordinator::Phase::Idle);  // they would say the same again
    c.say(1, Type::Report, 0, 0, "y"), c.pass(60001);
    CHECK(c.machine.phase() == Coordinator::Phase::Deciding);
  }
}

TEST(agree_coordinator_takes_no_answer_of_another_round) {
  Coordinating c;
  c.offer();
  c.pass(1001);
  c.machine.tick(c.machine.deadline());
  c.machine.decided("plan", c.now);
  c.prepare(1);
  CHECK(c.machine.phase() == Coordinator::Phase::Offering);
  c.prepare(2);
  CHECK(c.machine.phase() == Coordinator::Phase::Preparing);
  for (int rank = 0; rank < 3; rank++) c.say(rank, Type::Promised, 1, 5), c.say(rank, Type::Ready, 2);
  CHECK(c.machine.phase() == Coordinator::Phase::Preparing);
}

TEST(agree_coordinator_a_report_in_the_middle_comes_after) {
  Coordinating c;
  c.offer();
  c.say(1, Type::Report, 0, 0, "y");
  c.pass(100);
  CHECK(c.machine.phase() == Coordinator::Phase::Offering);
  c.prepare();
  c.say(2, Type::Report, 0, 0, "z");
  for (int rank = 0; rank < 3; rank++) c.say(rank, Type::Promised, 1, 500);
  CHECK(c.desk.last() == Type::Commit);
  c.pass(49);
  CHECK(c.machine.phase() == Coordinator::Phase::Idle);
  c.pass(2);
  CHECK(c.machine.phase() == Coordinator::Phase::Deciding);
  CHECK_EQ(c.desk.asked[1], "y");
  CHECK_EQ(c.desk.asked[2], "z");
}

TEST(agree_coordinator_failures_make_it_rarer) {
  Coordinating c;
  c.offer();
  int64_t pause = 0;
  for (int i = 0; i < 12; i++) {
    c.pass(1001);
    const int64_t next = c.machine.deadline() - c.now;
    CHECK(next > pause || next == 60000 * kMs);
    pause = next;
    c.pass(next / kMs + 1);
    c.machine.decided("plan", c.now);
  }
}

TEST(agree_coordinator_waits_until_all_can_be_reached) {
  Coordinating c;
  c.desk.isAble = false;
  c.say(2, Type::Report, 0, 0, "x");
  for (int i = 0; i < 10; i++) c.pass(51);
  CHECK(c.machine.phase() == Coordinator::Phase::Idle);
  c.desk.isAble = true;
  c.pass(51);
  CHECK(c.machine.phase() == Coordinator::Phase::Deciding);
}

TEST(agree_coordinator_one_leaves_in_each_phase) {
  for (int phase = 0; phase < 4; phase++) {
    Coordinating c;
    if (phase == 1) c.say(2, Type::Report, 0, 0, "x"), c.pass(11);
    if (phase >= 2) c.offer();
    if (phase == 3) c.prepare();
    c.say(1, Type::Leave, 0);
    CHECK(c.machine.phase() == Coordinator::Phase::Over);
    CHECK(c.desk.last() == Type::Left);
    CHECK_EQ(c.desk.sent.back().text, "rank 1 left");
    const size_t before = c.desk.sent.size();
    CHECK(phase < 2 || c.desk.sent[before - 2].type == Type::Withdraw);
    c.machine.decided("plan", c.now), c.prepare(), c.offer();
    c.machine.unreached(2, "a", "b", c.now);  // its end is no news any more
    CHECK_EQ(c.desk.sent.size(), before);
  }
}

TEST(agree_coordinator_one_is_not_reached_in_each_phase) {
  using P = Coordinator::Phase;
  for (int phase = 0; phase < 4; phase++) {
    Coordinating c;
    if (phase == 1) c.say(2, Type::Report, 0, 0, "x"), c.pass(11);
    if (phase >= 2) c.offer();
    if (phase == 3) c.prepare();
    const size_t before = c.desk.sent.size();
    c.machine.unreached(2, "10.0.0.2", "silent", c.now);
    CHECK(c.machine.phase() == (phase == 1 ? P::Deciding : P::Idle));
    if (phase < 2) {
      CHECK_EQ(c.desk.sent.size(), before);  // nobody is told, as nothing runs
    } else {
      CHECK(c.desk.last() == Type::Withdraw);
      CHECK_EQ(c.desk.sent.back().text, "rank 2 (10.0.0.2): silent");
      c.pass(60000);
      CHECK(c.machine.phase() == P::Deciding);  // once it is back
    }
  }
}

TEST(agree_coordinator_every_transition) {
  using P = Coordinator::Phase;
  using E = Coordinator::Event;
  const std::vector<std::vector<P>> table = {
      // Wanted, Unchanged, Proposed, AllReady, AllAgree, Refused, Late, Differ, Left
      {P::Deciding, P::Idle, P::Idle, P::Idle, P::Idle, P::Idle, P::Idle, P::Idle, P::Over},
      {P::Deciding, P::Idle, P::Offering, P::Deciding, P::Deciding, P::Deciding, P::Deciding, P::Deciding, P::Over},
      {P::Offering, P::Offering, P::Offering, P::Preparing, P::Offering, P::Idle, P::Idle, P::Offering, P::Over},
      {P::Preparing, P::Preparing, P::Preparing, P::Preparing, P::Idle, P::Idle, P::Idle, P::Idle, P::Over},
      std::vector<P>(9, P::Over),
  };
  for (size_t phase = 0; phase < table.size(); phase++) {
    for (size_t event = 0; event < 9; event++) {
      CHECK(Coordinator::next(static_cast<P>(phase), static_cast<E>(event)) == table[phase][event]);
    }
  }
}

TEST(agree_member_every_transition) {
  using P = Member::Phase;
  const std::vector<std::vector<P>> table = {
      // Offered, Able, Unable, Prepared, Committed, Withdrawn, Left
      {P::Working, P::Free, P::Free, P::Free, P::Free, P::Free, P::Over},
      {P::Working, P::Ready, P::Free, P::Working, P::Working, P::Free, P::Over},
      {P::Ready, P::Ready, P::Ready, P::Promised, P::Ready, P::Free, P::Over},
      {P::Promised, P::Promised, P::Promised, P::Promised, P::Free, P::Free, P::Over},
      std::vector<P>(7, P::Over),
  };
  for (size_t phase = 0; phase < table.size(); phase++) {
    for (size_t event = 0; event < 7; event++) {
      CHECK(Member::next(static_cast<P>(phase), static_cast<Member::Event>(event)) == table[phase][event]);
    }
  }
}

TEST(agree_member_goes_through_a_round) {
  Hand hand;
  Member member(hand);
  member.on(message(Type::Offer, 4, 0, 0, "plan"));
  CHECK_EQ(hand.worked, 4U);
  member.on(message(Type::Prepare, 4, 100));  // before it is ready: not from our coordinator
  CHECK(hand.sent.empty());
  member.worked(3, true, "");  // of a round before
  CHECK(hand.sent.empty());
  member.worked(4, true, "");
  CHECK(hand.sent.back().type == Type::Ready);
  member.on(message(Type::Commit, 4, 200, 1));  // promised nothing
  CHECK(hand.commits.empty());
  member.on(message(Type::Prepare, 4, 100));
  CHECK(hand.sent.back().type == Type::Promised);
  CHECK_EQ(hand.sent.back().group, 107U);
  member.on(message(Type::Commit, 5, 200, 1));
  CHECK(hand.commits.empty());
  member.on(message(Type::Commit, 4, 200, 1));
  CHECK_EQ(hand.commits.size(), 1U);
  CHECK_EQ(hand.commits[0].text, "plan");
  CHECK_EQ(hand.commits[0].first, 200U);
}

TEST(agree_member_a_withdrawn_work_is_not_answered) {
  Hand hand;
  Member member(hand);
  member.on(message(Type::Offer, 1, 0, 0, "plan"));
  member.on(message(Type::Withdraw, 1, 0, 0, "late"));
  member.on(message(Type::Offer, 2, 0, 0, "other"));
  member.worked(1, true, "");
  CHECK(hand.sent.empty());
  member.on(message(Type::Withdraw, 1, 0, 0, "late"));  // of the round before
  member.worked(2, true, "");
  CHECK_EQ(hand.sent.size(), 1U);
}

TEST(agree_member_says_aloud_what_a_user_must_mend) {
  Hand hand;
  Member member(hand);
  member.on(message(Type::Offer, 1, 0, 0, "plan"));
  member.worked(1, true, "parts=a\n", 77);
  CHECK(hand.sent.back().text == "parts=a\n" && hand.sent.back().number == 77);
  Message withdraw = message(Type::Withdraw, 1, 0, 0, "the ranks' plans differ");
  member.on(withdraw);
  CHECK(hand.warned.empty());  // an ordinary one
  member.on(message(Type::Offer, 2, 0, 0, "plan"));
  withdraw.round = 2, withdraw.ok = 1;
  member.on(withdraw);
  CHECK_EQ(hand.warned, "no switch: the ranks' plans differ\n");
  CHECK(member.phase() == Member::Phase::Free);
}

TEST(agree_member_of_an_earlier_coordinator_that_tells_a_death_switches_no_more) {
  const Message death = message(Type::Broken, 0, 0, 7, "10.0.0.7, host h7\nsilent for 9 s");
  for (const bool promised : {false, true}) {
    Hand hand;
    Member member(hand);
    member.on(message(Type::Offer, 1, 0, 0, "plan"));
    member.worked(1, true, "");
    if (promised) member.on(message(Type::Prepare, 1, 100));
    member.on(death);
    // One that promised would wait for ever: that coordinator tells nobody how its round ended.
    const std::string said = "the ranks can agree on nothing any more: rank 7 (10.0.0.7, host h7): silent for 9 s";
    CHECK_EQ(hand.failed, promised ? said : "");
    const size_t sent = hand.sent.size();
    member.on(message(Type::Commit, 1, 200, 1));
    member.leave(true);
    CHECK(hand.commits.empty());
    CHECK_EQ(hand.sent.size(), sent);
  }
}

TEST(agree_coordinator_that_lost_a_rank_while_it_decided_decides_again_once_it_is_back) {
  Coordinating c;
  c.say(2, Type::Report, 0, 0, "x");
  c.pass(11);
  CHECK(c.machine.phase() == Coordinator::Phase::Deciding);
  c.desk.isAble = false;
  c.machine.decided("plan", c.now);
  CHECK(c.machine.phase() == Coordinator::Phase::Idle);
  c.pass(51);
  CHECK(c.desk.sent.empty());
  c.desk.isAble = true;
  c.pass(51);
  CHECK(c.machine.phase() == Coordinator::Phase::Deciding);
  c.machine.decided("plan", c.now);
  CHECK(c.desk.last() == Type::Offer);
}
