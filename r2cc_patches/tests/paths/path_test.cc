// Judgement of paths: what a round of probes proves, how long silence must last, and how a path comes back.
#include "paths/path.h"
#include "check.h"
#include "paths/peer.h"

using namespace r2cc;

namespace {

/// A path that was killed at `now`.
void kill(Path& path, int64_t now) { CHECK(path.linkLost(now, true)); }

/// Brings a dead path back with steady answers; how long that took.
int64_t revive(Path& path, int64_t now) {
  CHECK(path.pong(now));
  const int64_t start = now;
  while (path.state() == PathState::Probation) {
    now += msToNs(10);
    path.pong(now);
    path.probationTick(now);
  }
  CHECK(path.state() == PathState::Up);
  return now - start;
}

constexpr int64_t kFirst = msToNs(100);  // Probation's default

/// The next round of probes, which another path answered and this one did not.
bool silentRound(Path& path, int64_t now) {
  static uint32_t round = 0;
  path.pinged(++round);
  return path.round(round, 0, now);
}

/// A peer without a NIC to reach it over.
struct LonePeer {
  std::vector<LocalNic> nics;
  const SideChannel side{nics};
  const Self self;
  Peer peer{1, /*weConnect=*/true, Key{}, self, side, nics, Probation{}};
};

/// Rounds of silence until it is dead; 0 when it never is.
int roundsToDie(Path& path, int64_t answerNs) {
  int64_t now = msToNs(1000000);
  for (uint32_t round = 1; round < 1000; round++, now += kRoundNs) {
    path.pinged(round);
    if (path.round(round, answerNs, now)) return static_cast<int>(round);
  }
  return 0;
}

}  // namespace

TEST(net_path_transitions) {
  const int64_t t = msToNs(1000000);
  Path path(0, 0, PathUse::Data);
  CHECK(path.state() == PathState::Up && path.up());
  CHECK(!path.stalled(false, 0) && !path.pong(t) && !path.probationTick(t));
  CHECK(!silentRound(path, t));  // not suspect: silence means nothing
  CHECK(path.stalled(true, 0));
  CHECK(path.state() == PathState::Suspect && path.up());
  CHECK(!path.stalled(true, 0));
  CHECK(path.stalled(false, 0));
  CHECK(path.state() == PathState::Up);
  CHECK(path.stalled(true, 0));
  for (int i = 1; i < kMissesToDie; i++) CHECK(!silentRound(path, t));
  CHECK(silentRound(path, t));
  CHECK(path.state() == PathState::Dead && !path.up());
  CHECK(!path.linkLost(t, true) && !path.stalled(true, 0) && !path.stalled(false, 0) && !silentRound(path, t));
  CHECK(!path.probationTick(t + kFirst));
  CHECK(path.pong(t));
  CHECK(path.state() == PathState::Probation && !path.up());
  CHECK(path.linkLost(t, true));
  CHECK(path.state() == PathState::Dead);
}

TEST(net_path_that_carries_something_lives) {
  const int64_t t = msToNs(1000000);
  Path path(0, 0, PathUse::Data);
  path.carried(t);
  path.carried(t - msToNs(100));  // in any order
  CHECK(!path.stalled(true, t + kMovesNs - 1) && path.stalled(true, t + kMovesNs));
  int64_t now = t + kMovesNs;
  for (int i = 1; i < kMissesToDie; i++) CHECK(!silentRound(path, now));
  path.carried(now + 1);  // probes get lost where queues are full
  for (int i = 0; i < kMissesToDie; i++) CHECK(!silentRound(path, now + 2));
  CHECK(silentRound(path, now + 2) && path.state() == PathState::Dead);
}

TEST(net_path_late_peer_is_no_evidence) {
  Path path(0, 0, PathUse::Data);
  CHECK(path.stalled(true, 0));
  uint32_t round = 0;
  for (int i = 0; i < 1000; i++) path.pinged(++round), CHECK(!path.round(0, 0, 0));  // silent everywhere
  for (int i = 0; i < 1000; i++) path.pinged(++round), CHECK(!path.round(7, 0, 0));  // a round counts once
  CHECK(path.state() == PathState::Suspect);
  for (int i = 2; i < kMissesToDie; i++) path.pinged(++round), CHECK(!path.round(round, 0, 0));
  path.pongRound = ++round;
  path.pinged(round), CHECK(!path.round(round, 0, 0));  // one answer wipes the slate
  for (int i = 1; i < kMissesToDie; i++) path.pinged(++round), CHECK(!path.round(round, 0, 0));
  path.pong(0);  // and so does one that is late
  for (int i = 1; i < kMissesToDie; i++) path.pinged(++round), CHECK(!path.round(round, 0, 0));
  CHECK(path.state() == PathState::Suspect);
}

TEST(net_path_is_not_judged_by_rounds_it_was_not_asked_in) {
  Path path(0, 0, PathUse::Data);
  path.pinged(50);  // beside a suspect one
  CHECK(path.stalled(true, 0));
  for (uint32_t old = 1; old <= 50; old++) CHECK(!path.round(old, 0, 0));
  for (uint32_t round = 51; round < 51 + kMissesToDie - 1; round++) path.pinged(round), CHECK(!path.round(round, 0, 0));
  path.pinged(100);  // after a pause
  for (uint32_t between = 60; between < 100; between++) CHECK(!path.round(between, 0, 0));
  CHECK(path.round(100, 0, 0));
}

TEST(net_path_slow_answers_ask_for_longer_silence) {
  Path path(0, 0, PathUse::Data);
  CHECK(path.stalled(true, 0));
  const int64_t answerNs = msToNs(100);
  int64_t now = msToNs(1000000);
  const int64_t start = now;
  for (uint32_t round = 1; path.state() == PathState::Suspect; round++, now += kRoundNs) {
    path.pinged(round);
    path.round(round, answerNs, now);
    CHECK(round < 1000);
  }
  CHECK(now - start >= kSilentAnswers * answerNs && now - start < kSilentAnswers * answerNs + 2 * kRoundNs);
}

TEST(net_peer_remembers_how_long_answers_took) {
  LonePeer lone;
  Peer& peer = lone.peer;
  Path path(0, 0, PathUse::Data), quick(1, 1, PathUse::Data);
  const int64_t start = msToNs(1000000);
  CHECK_EQ(peer.answerNs(start), 0);
  for (uint32_t round = 1; round <= 1000; round++) {
    peer.beginRound(start + round * kRoundNs);
    peer.answered(quick, round, start + round * kRoundNs);
  }
  const int64_t now = start + 1000 * kRoundNs;
  peer.answered(path, 1001, now);  // of a round that never was
  peer.answered(path, 0, now);     // of none
  CHECK(path.pongRound == 0 && peer.answerNs(now) == 0);
  peer.answered(path, 990, now);
  CHECK_EQ(path.pongRound, 990u);
  CHECK_EQ(peer.answerNs(now), 10 * kRoundNs);
  peer.answered(path, 999, now);  // a quicker one does not hide it
  CHECK_EQ(peer.answerNs(now), 10 * kRoundNs);
  CHECK_EQ(peer.answerNs(now + msToNs(500)), 5 * kRoundNs);
  CHECK_EQ(peer.answerNs(now + msToNs(1000000)), 0);
  Path late(0, 1, PathUse::Data);
  peer.answered(late, 1, now);  // three seconds late
  CHECK_EQ(peer.answerNs(now), msToNs(1000));
}

// A question that a stream carried into a black hole is answered when the path is back, seconds later: the next fault
// took 130 ms to be seen instead of 25.
TEST(net_peer_is_not_slow_because_a_path_was_away) {
  LonePeer lone;
  Peer& peer = lone.peer;
  Path lost(0, 0, PathUse::Data), other(1, 1, PathUse::Data);
  const int64_t start = msToNs(1000000);
  int64_t now = start;
  CHECK(lost.stalled(true, now));
  while (lost.state() != PathState::Dead) {
    peer.beginRound(now);
    lost.pinged(peer.round);
    peer.answered(other, peer.round, now);
    now += kRoundNs;
    lost.round(peer.round, peer.answerNs(now), now);
    CHECK(now < start + msToNs(1000));
  }
  now += msToNs(1500);
  peer.answered(lost, 1, now);
  CHECK_EQ(lost.pongRound, 1u);
  CHECK_EQ(peer.answerNs(now), 0);
  // One that did not die lay in a queue.
  Path queued(0, 1, PathUse::Data);
  peer.answered(queued, 2, now);
  CHECK_EQ(peer.answerNs(now), msToNs(1000));
}

TEST(net_peer_remembers_that_nobody_answered) {
  LonePeer lone;
  Peer& peer = lone.peer;
  Path one(0, 0, PathUse::Data), other(1, 1, PathUse::Data);
  int64_t now = msToNs(1000000);
  peer.beginRound(now);
  peer.answered(one, 1, now += msToNs(1));
  CHECK_EQ(peer.answerNs(now), msToNs(1));
  // A series that ends without its last answer says nothing about one that begins a minute later.
  peer.beginRound(now += msToNs(2));
  peer.beginRound(now += msToNs(60000));
  peer.answered(one, 3, now += msToNs(2));
  CHECK_EQ(peer.answerNs(now), msToNs(2));
  // All paths silent for 300 ms: the first answer is to the newest question, and yet it took that long.
  const int64_t silence = now + kRoundNs;
  for (int i = 0; i < 100; i++) peer.beginRound(now += kRoundNs);
  peer.answered(other, peer.round, now += msToNs(1));
  CHECK_EQ(peer.answerNs(now), now - silence);
}

TEST(net_peer_asks_less_often_where_answers_are_slow) {
  LonePeer lone;
  Peer& peer = lone.peer;
  Path path(0, 0, PathUse::Data);
  int64_t now = msToNs(1000000);
  CHECK_EQ(peer.roundEveryNs(now), kRoundNs);
  peer.beginRound(now);
  peer.answered(path, peer.round, now + msToNs(1));  // quick
  CHECK_EQ(peer.roundEveryNs(now + msToNs(1)), kRoundNs);
  peer.beginRound(now += msToNs(50));
  CHECK_EQ(peer.roundEveryNs(now + msToNs(80)), msToNs(20));  // nobody has answered yet
  CHECK_EQ(peer.roundEveryNs(now + msToNs(4000)), msToNs(100));
  peer.answered(path, peer.round, now += msToNs(80));
  CHECK_EQ(peer.roundEveryNs(now), msToNs(20));
  CHECK_EQ(peer.roundEveryNs(now + msToNs(5000)), kRoundNs);  // forgotten
}

TEST(net_path_accused_by_another_dies_sooner_but_only_with_traffic_that_stands_still) {
  const int64_t t = msToNs(1000000);
  for (const int64_t answerNs : {int64_t{0}, msToNs(30)}) {
    Path alone(0, 0, PathUse::Data), accused(0, 0, PathUse::Data), idle(0, 0, PathUse::Data);
    CHECK(alone.stalled(true, t));
    accused.suspect(t), CHECK(accused.stalled(true, t));
    idle.suspect(t), CHECK(idle.stalled(false, t));
    const int usual = roundsToDie(alone, answerNs);
    CHECK(usual >= kMissesToDie && roundsToDie(idle, answerNs) == usual);
    CHECK(roundsToDie(accused, answerNs) <= usual - 2 && accused.state() == PathState::Dead);
  }
  Path late(0, 0, PathUse::Data);  // an accusation is about now
  late.suspect(t - kAssociationNs);
  CHECK(late.stalled(true, t) && roundsToDie(late, 0) == kMissesToDie);
}

TEST(net_path_probation_doubles_and_is_forgiven) {
  Path path(0, 0, PathUse::Data);
  int64_t now = msToNs(1000000);
  for (int failure = 0; failure < 10; failure++) {
    kill(path, now);
    const int64_t expected = kFirst << std::min(failure, kMaxDoublings);
    CHECK_EQ(path.probationNs(), expected);
    const int64_t took = revive(path, now);
    CHECK(took >= expected && took < expected + msToNs(50));
    now += took;
  }
  now += kForgiveNs + msToNs(1);
  kill(path, now);
  CHECK_EQ(path.probationNs(), kFirst);
}

TEST(net_path_probation_ends_in_silence) {
  Path path(0, 0, PathUse::Data);
  const int64_t t = msToNs(1000000);
  kill(path, t);
  CHECK(path.pong(t));
  CHECK(!path.probationTick(t + kProbationSilenceNs));
  CHECK(path.probationTick(t + kProbationSilenceNs + 1));
  CHECK(path.state() == PathState::Dead);
}

/// A firewall refuses while a process lives, which is heard by TCP then. One that loses UDP refuses nothing.
TEST(net_path_tells_a_firewall_that_refuses_from_a_host_that_does) {
  Path path(0, 0, PathUse::Data);
  path.refused = true;
  CHECK(!path.refusesNow());  // nothing ever came by UDP
  path.udpHeard = 1;
  CHECK(path.refusesNow());
  path.saidUdpLost = true;
  CHECK(path.refusesNow());
  path.refusedAlive = kRefusedAlive - 1;  // what was said before the end of a process may come after it
  CHECK(path.refusesNow());
  path.refusedAlive = kRefusedAlive;
  CHECK(!path.refusesNow());
}

/// What a late process has not read came by UDP all the same: nobody says that UDP does not pass.
TEST(net_side_channel_knows_what_it_has_not_read) {
  std::vector<LocalNic> nics(1);
  nics[0].name = "lo";
  nics[0].address.family = AF_INET;
  nics[0].address.ip = {127, 0, 0, 1};
  const SideChannel side{nics};
  const Fd* const sockets[] = {&side.fds()[0], &side.ackFds()[0]};
  const uint16_t ports[] = {nics[0].address.port, nics[0].address.ackPort};
  for (size_t i = 0; i < 2; i++) {
    CHECK(!side.unread(0));
    NicAddress to = nics[0].address;
    to.port = ports[i];
    CHECK(side.send(0, to, {1, 2, 3}, /*pinned=*/false));
    CHECK(side.unread(0));
    int read = 0;
    (void)SideChannel::receive(*sockets[i], [&](const NicAddress&, const uint8_t*, size_t) { read++; });
    CHECK_EQ(read, 1);
  }
  CHECK(!side.unread(0));
}
