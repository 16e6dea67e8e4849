// What is counted, in each version of the interface.
#include "check.h"
#include "player.h"
#include "watched.h"

using namespace r2cc;
using namespace r2cc::play;

namespace {

template <typename Version>
void countsRight() {
  const Watched watched;
  Player<Version> player;
  CHECK_EQ(player.mask() & ~(ncclProfileCeColl),
           ncclProfileColl | ncclProfileP2p | ncclProfileProxyOp | ncclProfileProxyStep);
  for (int i = 0; i < 3; i++) player.collective(1000, 2, 4096);
  CHECK(player.other(ncclProfileGroup) == nullptr);
  CHECK(player.other(ncclProfileProxyCtrl) == nullptr);
  player.finalize();
  const auto comms = watched.lines("comm");
  CHECK_EQ(comms.size(), 1U);
  CHECK(comms[0].has("\"comm\":\"0000000000000abc\",\"comm_rank\":1,\"name\":\"world\""));
  CHECK_EQ(comms[0].number("comm_ranks"), Version::number >= 4 ? 4 : 0);
  CHECK_EQ(comms[0].number("nodes"), Version::number >= 4 ? 2 : 0);
  CHECK_EQ(comms[0].number("pid"), getpid());
  const Line last = watched.last();
  CHECK_EQ(last.number("rank"), 1);
  CHECK_EQ(last.number("collectives"), 3);
  CHECK_EQ(last.number("ended"), 3);
  CHECK_EQ(last.number("bytes"), 3 * 2 * 2 * 4096);
  CHECK_EQ(last.number("launched_bytes"), 12000);
  CHECK_EQ(linesOf(watched.file()).back().is("comm_end"), true);
}

}  // namespace

TEST(counts_v1) { countsRight<V1>(); }
TEST(counts_v2) { countsRight<V2>(); }
TEST(counts_v3) { countsRight<V3>(); }
TEST(counts_v4) { countsRight<V4>(); }
TEST(counts_v5) { countsRight<V5>(); }
TEST(counts_v6) { countsRight<V6>(); }

TEST(two_communicators_count_apart) {
  const Watched watched;
  Player<V6> first({1, "first", 0, 2, 2}), second({2, nullptr, 1, 2, 2});
  first.collective(10, 1, 100);
  second.collective(10, 5, 1000);
  first.finalize();
  second.collective(10, 5, 1000);
  second.finalize();
  CHECK_EQ(watched.last("\"comm\":\"0000000000000001\"").number("bytes"), 200);
  CHECK_EQ(watched.last("\"comm\":\"0000000000000002\"").number("bytes"), 20000);
  CHECK_EQ(watched.last("\"comm\":\"0000000000000002\"").number("collectives"), 2);
  CHECK_EQ(watched.lines("comm_end").size(), 2U);
}

TEST(the_launchers_rank_is_named) {
  const Watched watched;
  setenv("SLURM_PROCID", "9", 1);
  setenv("RANK", "7", 1);
  setenv("R2CC_RANK", "seven", 1);
  Player<V6>().collective(1, 1, 1);
  CHECK_EQ(watched.last().number("rank"), 7);
  CHECK_EQ(watched.last().number("comm_rank"), 1);
}

TEST(lines_come_while_it_runs) {
  const Watched watched;
  Player<V6> player;
  player.collective(1, 1, 64);
  CHECK(within(5000, [&] { return watched.last().number("bytes") == 128 && watched.last().number("ended") == 1; }));
  const size_t lines = linesOf(watched.file()).size();
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  CHECK_EQ(linesOf(watched.file()).size(), lines);  // nothing changed
  player.collective(1, 1, 64);
  CHECK(within(5000, [&] { return watched.last().number("bytes") == 256; }));
}

// A host's own collectives have no operation of the proxies.
TEST(what_needs_no_network_ends_when_launched) {
  const Watched watched;
  Player<V6> inner({1, "inner", 0, 2, 1}), outer({2, "outer", 0, 2, 2});
  inner.stop(inner.launch(10));
  outer.stop(outer.launch(10));
  CHECK(within(5000, [&] { return watched.last("\"comm\":\"0000000000000001\"").number("ended") == 1; }));
  CHECK(within(5000, [&] { return watched.last("\"comm\":\"0000000000000002\"").number("ended") == 1; }));
}

TEST(what_waits_behind_another_has_not_ended) {
  const Watched watched;
  Player<V6> player;
  void* first = player.launch(10);
  void* op = player.op(first, true);
  player.stop(first);
  void* step = player.step(op);
  player.stop(player.launch(10));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  CHECK_EQ(watched.last().number("collectives"), 2);
  CHECK_EQ(watched.last().number("ended"), 0);
  player.moved(op, step, true, 10);
  player.stop(step), player.stop(op);
  CHECK(within(5000, [&] { return watched.last().number("ended") == 2; }));
}

// Shared memory and CollNet begin operations and never stop them.
TEST(operations_without_steps_hold_nothing_up) {
  const Watched watched;
  Player<V6> player;
  for (int i = 0; i < 20000; i++) {
    void* task = player.launch(1);
    CHECK(player.op(task, true) != nullptr);
    player.stop(task);
  }
  player.collective(1, 1, 5);
  player.finalize();
  CHECK_EQ(watched.last().number("ended"), 20001);
  CHECK_EQ(watched.last().number("bytes"), 10);
}

TEST(what_another_process_began_is_not_ours) {
  const Watched watched;
  Player<V6> player;
  CHECK(player.op(player.launch(1), true, getpid() + 1) == nullptr);
  CHECK(player.step(nullptr) == nullptr);
}

// NCCL begins a receive's step again at each try, until the network takes it.
TEST(a_step_begun_again_is_one) {
  const Watched watched;
  Player<V6> player;
  void* task = player.launch(1);
  void* op = player.op(task, false);
  player.stop(task);
  void* step = nullptr;
  for (int i = 0; i < 1000; i++) step = player.step(op);
  player.moved(op, step, false, 10);
  player.stop(step), player.stop(op);
  player.finalize();
  CHECK_EQ(watched.last().number("ended"), 1);
  CHECK_EQ(watched.last().number("bytes"), 10);
}

// A replayed graph brings operations of a task that is long over.
TEST(operations_of_an_old_task_move_bytes) {
  const Watched watched;
  Player<V6> player;
  void* old = player.launch(1);
  player.stop(old);
  for (int i = 0; i < 10000; i++) player.stop(player.launch(1));
  void* op = player.op(old, true);
  player.wholeStep(op, true, 50);
  player.stop(op);
  player.finalize();
  CHECK_EQ(watched.last().number("bytes"), 50);
  CHECK_EQ(watched.last().number("ended"), 10001);
}

TEST(copy_engines_count) {
  const Watched watched;
  Player<V6> player;
  CHECK((player.mask() & ncclProfileCeColl) != 0);
  player.stop(player.other(ncclProfileCeColl));
  player.finalize();
  CHECK_EQ(watched.last().number("ended"), 1);
}
