// The side channel without UDP, lanes judged by their own data, connections to oneself, and what nobody asks for any
// more.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "budget.h"
#include "check.h"
#include "engine/turns.h"
#include "paths/agenda.h"
#include "rig/door.h"
#include "rig/rig.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

constexpr int64_t kLimitNs = msToNs(20000);
constexpr int64_t kStandNs = msToNs(1000);  // the most that data may stand still

void pauseMs(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

/// Both connections, half of whose messages are through.
void halfWay(Rig& rig, uint64_t messages) {
  rig.stream(0, 1, 0, messages);
  rig.stream(1, 0, 1, messages);
  for (const Stream& s : rig.streams()) s.sender->limit = s.receiver->limit = messages / 2;
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == messages; }));
}

void lift(Rig& rig) {
  for (const Stream& s : rig.streams()) s.sender->limit = s.receiver->limit = UINT64_MAX;
}

size_t streams(Rig& rig) { return EngineDoor::streams(rig.engine(0)) + EngineDoor::streams(rig.engine(1)); }

std::string lines(const Rig& rig) {
  std::string out;
  for (const std::string& line : rig.warnings()) out += line + "\n";
  return out;
}

/// All is through and nothing was done wrong but to say, once a NIC, that UDP does not pass.
void finishWithoutUdp(Rig& rig, size_t nics) {
  CHECK(rig.allDone(kLimitNs));
  CHECK(Rig::within(kLimitNs, [&] { return lines(rig).find("UDP does not pass") != std::string::npos; }));
  CHECK(rig.warnings().size() <= nics);
  rig.stop();
  CHECK(rig.fabric.violations().empty());
  for (const Stream& s : rig.streams()) CHECK_EQ(s.receiver->wrong(), "");
}

RigOptions samples() {
  RigOptions options;
  options.samples = options.plain = true;
  return options;
}

}  // namespace

TEST(net_streams_carry_everything_where_udp_never_passes) {
  for (const int mode : {1, 2}) {
    RigOptions options;
    options.mode = mode;
    Rig rig(options);
    rig.loseUdp = true;
    halfWay(rig, 2000);
    const int freezes = rig.seen(Type::Freeze);
    lift(rig);
    finishWithoutUdp(rig, 6);
    CHECK_EQ(rig.seen(Type::Freeze), freezes);  // nothing failed over
  }
}

TEST(net_streams_begin_and_end_with_the_loss_of_udp) {
  Rig rig({});
  halfWay(rig, 4000);
  rig.loseUdp = true;
  for (const Stream& s : rig.streams()) s.sender->limit = s.receiver->limit = 3000;
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == 6000; }));
  CHECK(Rig::within(kLimitNs, [&] { return lines(rig).find("UDP does not pass") != std::string::npos; }));
  CHECK(streams(rig) > 0);
  rig.loseUdp = false;
  CHECK(Rig::within(kLimitNs, [&] { return streams(rig) == 0; }));
  lift(rig);
  finishWithoutUdp(rig, 6);
}

/// Acknowledgements still come by UDP: nothing is wrong but for what we say.
TEST(net_streams_name_udp_that_is_lost_one_way) {
  Rig rig({});
  rig.loseUdpOf = 0;  // the sender's
  halfWay(rig, 2000);
  CHECK(Rig::within(kLimitNs, [&] { return lines(rig).find("UDP does not pass") != std::string::npos; }));
  rig.loseUdpOf = -1;
  CHECK(Rig::within(kLimitNs, [&] { return streams(rig) == 0; }));
  lift(rig);
  finishWithoutUdp(rig, 6);
}

/// Nothing passed for a while, and then all does: at the end of a long cut TCP may be heard first.
TEST(net_streams_do_not_blame_udp_for_a_cut) {
  Rig rig({});
  halfWay(rig, 2000);
  for (int cut = 0; cut < 3; cut++) {
    for (int rail = 0; rail < 3; rail++) rig.fabric.cut({0, rail}, Cut::Hold);
    pauseMs(1200);
    rig.fabric.healAll();
    CHECK(Rig::within(kLimitNs, [&] { return streams(rig) == 0; }));
  }
  lift(rig);
  CHECK(rig.allDone(kLimitNs));
  rig.stop();
  CHECK_EQ(rig.problems(), "");
}

TEST(net_streams_tell_a_silent_nic_where_udp_does_not_pass) {
  Rig rig({});
  rig.loseUdp = true;
  halfWay(rig, 2000);
  rig.fabric.cut({0, 0}, Cut::Hold);
  lift(rig);
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == 4000; }));
  rig.fabric.heal({0, 0});
  finishWithoutUdp(rig, 6);
}

/// Anybody may connect, say nothing or rubbish, and stay: none of it is kept, and nothing else notices.
TEST(net_streams_strangers_are_few_and_soon_gone) {
  Rig rig({});
  halfWay(rig, 2000);
  const size_t before = streams(rig);
  std::vector<int> callers;
  const NicAddress door = EngineDoor::addresses(rig.engine(1))[0];
  for (int i = 0; i < 100; i++) {
    const sockaddr_storage to = door.sockaddr();
    callers.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    CHECK_EQ(connect(callers.back(), reinterpret_cast<const sockaddr*>(&to), sizeof(sockaddr_in)), 0);
    const uint8_t rubbish[] = {0xff, 0xff, 1, 2, 3};             // longer than any datagram
    const uint8_t half[] = {200, 0, 'R', '2', 'C', 'C'};         // never to be completed
    const uint8_t stranger[] = {5, 0, 'h', 'e', 'l', 'l', 'o'};  // whole, and nobody's
    const auto say = [&](const void* bytes, size_t size) {
      CHECK(send(callers.back(), bytes, size, MSG_NOSIGNAL) > 0);
    };
    if (i % 4 == 1) say(rubbish, sizeof(rubbish));
    if (i % 4 == 2) say(half, sizeof(half));
    if (i % 4 == 3) say(stranger, sizeof(stranger));
  }
  lift(rig);
  CHECK(rig.allDone(kLimitNs));
  CHECK(EngineDoor::strangers(rig.engine(1)) <= 64);
  CHECK(Rig::within(kLimitNs, [&] { return streams(rig) <= before; }));
  for (const int fd : callers) close(fd);
  rig.stop();
  CHECK_EQ(rig.problems(), "");
}

TEST(net_verdict_on_a_lane_whose_data_stands_still_though_probes_pass) {
  for (const int mode : {1, 2}) {
    RigOptions options = samples();
    options.mode = mode;
    Rig rig(options);
    halfWay(rig, 2000);
    const int switched = rig.seen(Type::Switched);
    rig.fabric.stand({0, 0}, true);
    lift(rig);
    CHECK(rig.allDone(kLimitNs));
    CHECK(rig.streams()[0].receiver->longestGapNs() < kStandNs * check::slowness());
    // It stays where it is while TCP is lost, and comes home when a stream got through.
    if (mode == 1) CHECK_EQ(rig.seen(Type::Switched), switched);  // with balance all NICs that are left share its load
    rig.fabric.stand({0, 0}, false);
    CHECK(Rig::within(kLimitNs, [&] { return rig.seen(Type::Switched) > switched; }));
    rig.stop();
    CHECK_EQ(rig.problems(), "");
  }
}

/// Where a stream gets nothing through, as on a full NIC, the traffic that is there shows that data passes.
TEST(net_verdict_by_the_traffic_elsewhere) {
  Rig rig(samples());
  for (int rail = 0; rail < 2; rail++) {
    rig.stream(0, 1, rail, 100000000);
    rig.fabric.carries({0, rail}, rail == 0 ? 0.0 : 0.05);
  }
  rig.start();
  const End& stands = *rig.streams()[0].receiver;
  CHECK(Rig::within(kLimitNs, [&] { return stands.done() > 100 && rig.streams()[1].receiver->done() > 100; }));
  rig.loseStreams = true;
  rig.fabric.stand({0, 0}, true);
  pauseMs(30);
  const uint64_t before = stands.done();
  CHECK(Rig::within(msToNs(600) * check::slowness(), [&] { return stands.done() > before + 50; }));
  rig.stop();
  CHECK_EQ(stands.wrong() + rig.streams()[1].receiver->wrong(), "");
}

TEST(net_verdict_never_on_a_peer_that_does_not_answer) {
  Rig rig(samples());
  halfWay(rig, 2000);
  const int freezes = rig.seen(Type::Freeze);
  rig.pause(1, true);
  lift(rig);
  pauseMs(1500);
  CHECK_EQ(rig.seen(Type::Freeze), freezes);
  rig.pause(1, false);
  CHECK(rig.allDone(kLimitNs));
  rig.stop();
  CHECK_EQ(rig.problems(), "");
}

TEST(net_self_connections_of_one_process) {
  Rig rig({});
  for (int rail = 0; rail < 3; rail++) rig.stream(0, 0, rail, 500);
  rig.start();
  CHECK(rig.allDone(kLimitNs));
  rig.link(0, 0, false);  // no NIC is in the way
  rig.stop();
  CHECK_EQ(rig.problems(), "");
  CHECK(rig.decided(Type::Freeze) <= 3);  // each took its first lane and kept it
}

TEST(net_abandoned_connects_and_peers_that_left_are_forgotten) {
  Rig rig({});
  InnerHandle handle{};
  void* listen = nullptr;
  void* comm = nullptr;
  CHECK_EQ(rig.engine(1).listen(rig.context(1), 0, handle.data(), &listen), ncclSuccess);
  CHECK_EQ(rig.engine(0).connect(rig.context(0), 0, handle.data(), &comm), ncclSuccess);
  CHECK(Rig::within(kLimitNs, [&] { return EngineDoor::held(rig.engine(1)).connections == 1; }));
  // NCCL calls no more: neither end keeps anything, and the handle names nothing.
  EngineDoor::forget(rig.engine(0), msToNs(31000));
  CHECK_EQ(EngineDoor::held(rig.engine(0)).connections, 0u);
  CHECK_EQ(rig.engine(0).connect(rig.context(0), 0, handle.data(), &comm), ncclRemoteError);
  rig.engine(1).closeListen(listen);
  CHECK(Rig::within(kLimitNs, [&] { return EngineDoor::held(rig.engine(1)).connections == 0; }));
  for (const int host : {0, 1}) {
    EngineDoor::forget(rig.engine(host), msToNs(100));
    EngineDoor::forget(rig.engine(host), msToNs(200000));
    CHECK_EQ(EngineDoor::held(rig.engine(host)).peers, 0u);
  }
  // Whoever comes back is as good as new.
  halfWay(rig, 200);
  lift(rig);
  CHECK(rig.allDone(kLimitNs));
  rig.stop();
  CHECK_EQ(rig.problems(), "");
}

TEST(net_run_clock_leaves_out_what_we_did_not_run_once) {
  RunClock clock;
  pauseMs(30);
  const int64_t before = clock.now();
  clock.lost(msToNs(20));
  CHECK(clock.now() < before - msToNs(10));
  clock.lost(msToNs(20));  // another witness of the same time
  CHECK(clock.now() >= before - msToNs(25));
}

/// Seen in CI: a host that was 600 ms late noted when it was answered, and then that it had been late.
TEST(net_run_clock_that_goes_back_fades_nothing) {
  CHECK_EQ(faded(800, 1000, 1000, 10), 800);
  CHECK_EQ(faded(800, 1000, 1029, 10), 200);
  CHECK_EQ(faded(800, 0, INT64_MAX, 10), 0);
  CHECK_EQ(faded(800, 1000, 985, 10), 800);
}

TEST(net_run_clock_leaves_out_that_nobody_read_it_whoever_reads_it_first) {
  struct Read {
    int64_t clock, after;  // what it said, and when
  };
  RunClock clock;
  int64_t newest = clock.now();
  for (uint32_t stop = 1; stop <= 5; stop++) {
    std::vector<Read> reads(8);
    std::vector<std::thread> threads;
    const int64_t end = nowNs() + msToNs(500);  // stopped: the engine reads it every few milliseconds
    for (Read& read : reads) {
      threads.emplace_back([&clock, &read, end] {
        pauseMs(450);
        while (nowNs() < end) continue;
        read.clock = clock.now();
        read.after = nowNs();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Read& read : reads) CHECK(read.clock <= newest + (read.after - end) + msToNs(2));  // whoever was late
    for (const Read& read : reads) CHECK(read.clock > newest - msToNs(100));
    for (const Read& read : reads) newest = std::max(newest, read.clock);
    CHECK(clock.stops() >= stop);
  }
}

TEST(net_run_clock_counts_a_stop_and_what_was_said_before_it) {
  RunClock clock;
  pauseMs(250);
  const int64_t before = clock.now();
  pauseMs(300);
  clock.lost(msToNs(200));
  const int64_t after = clock.now();
  CHECK(after < before - msToNs(50));
  CHECK(after > before - msToNs(210));
}

TEST(net_agenda_leaves_out_that_a_turn_stood_still) {
  CHECK(onceOnTime([] {
    Agenda agenda;
    const int64_t due = runNs() + msToNs(2);
    agenda.lookAt(due);
    agenda.catchUp();
    if (agenda.begin()) return false;  // this test itself was late
    pauseMs(300);
    agenda.catchUp();
    CHECK(runNs() < due + msToNs(200));
    CHECK(agenda.begin());  // what looks like silence may be us
    return true;
  }));
}

TEST(net_agenda_is_late_for_a_stop_that_another_thread_saw_first) {
  CHECK(onceOnTime([] {
    Agenda agenda;
    agenda.lookAt(runNs() + msToNs(2));
    agenda.catchUp();
    if (agenda.begin()) return false;
    pauseMs(300);
    (void)runNs();
    agenda.lookAt(runNs() + msToNs(2));
    agenda.catchUp();
    CHECK(agenda.begin());
    return true;
  }));
}
