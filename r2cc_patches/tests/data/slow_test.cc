// Calls into a transport that take long, registrations and fences, hold up nobody but who needs their end.
#include <thread>

#include "check.h"
#include "rig/rig.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

constexpr int64_t kLimitNs = msToNs(15000), kAWhileNs = msToNs(60);

RigOptions rdma() {
  RigOptions o;
  o.needsAck = false;
  o.anyOrder = o.drains = true;
  return o;
}

void limit(const Stream& s, uint64_t messages) { s.sender->limit = s.receiver->limit = messages; }
bool reached(const Stream& s, uint64_t messages) {
  return Rig::within(kLimitNs, [&] { return s.receiver->done() >= messages && s.sender->done() >= messages; });
}

/// Streams from host 0 to host 1 with these homes, each half-way.
void halfWay(Rig& rig, const std::vector<int>& homes, uint64_t messages) {
  for (const int home : homes) limit(rig.stream(0, 1, home, messages), messages / 2);
  rig.start();
  for (const Stream& s : rig.streams()) CHECK(reached(s, messages / 2));
}

/// One more, made while something hangs, that loses its home.
void oneMore(Rig& rig, int home, int lost) {
  rig.stop();
  const size_t index = rig.streams().size();
  limit(rig.stream(0, 1, home, 300), 100);
  rig.start();
  const Stream& s = rig.streams()[index];
  CHECK(reached(s, 100));
  rig.link(0, lost, false);
  limit(s, UINT64_MAX);
  CHECK(reached(s, 300));
}

void finish(Rig& rig) {
  for (const Stream& s : rig.streams()) limit(s, UINT64_MAX);
  CHECK(rig.allDone(kLimitNs));
  rig.stop();
  CHECK_EQ(rig.problems(), "");
  rig.closeStreams();
  for (int host = 0; host < 2; host++) rig.endEngine(host);
  CHECK(rig.fabric.counts().clean());
  for (const std::string& v : rig.fabric.violations()) CHECK_EQ(v, "");
}

/// NCCL registers memory, in a thread of its own as its proxy does, and the transport does not come to an end.
struct Registration {
  Registration(Rig& rig, const Stream& s) : rig(rig), comm(s.sender->comm()) {
    rig.fabric.holdMemory(memory.data(), true);
    thread = std::thread([this] {
      result = this->rig.engine(0).regMr(comm, memory.data(), memory.size(), NCCL_PTR_HOST, 0, -1, &handle);
      over = true;
    });
    CHECK(Rig::within(kLimitNs, [&] { return rig.fabric.heldMemory(memory.data()) > 0; }));
  }
  ~Registration() { release(); }
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;
  void release() {
    rig.fabric.holdMemory(memory.data(), false);
    if (thread.joinable()) thread.join();
  }
  Rig& rig;
  void* const comm;
  std::vector<uint8_t> memory = std::vector<uint8_t>(4096);
  void* handle = nullptr;
  std::atomic<ncclResult_t> result{ncclInternalError};
  std::atomic<bool> over{false};
  std::thread thread;
};

}  // namespace

TEST(net_slow_registration_others_go_on) {
  Rig rig(rdma());
  halfWay(rig, {0}, 400);
  Registration slow(rig, rig.streams()[0]);
  oneMore(rig, 1, 1);
  limit(rig.streams()[0], UINT64_MAX);
  CHECK(reached(rig.streams()[0], 400));  // its own messages, too
  CHECK(!slow.over);
  slow.release();
  CHECK_EQ(slow.result, ncclSuccess);
  CHECK_EQ(rig.engine(0).deregMr(slow.comm, slow.handle), ncclSuccess);
  CHECK(rig.fabric.devsWith(0, slow.memory.data()).empty());
  finish(rig);
}

/// It hangs on the first lane; that and then the next are lost, so that a fresh one is needed too.
TEST(net_slow_registration_the_connection_fails_over) {
  Rig rig(rdma());
  halfWay(rig, {0}, 600);
  Registration slow(rig, rig.streams()[0]);
  for (int lost = 0; lost < 2; lost++) {
    rig.link(0, lost, false);
    limit(rig.streams()[0], 400 + 100 * static_cast<uint64_t>(lost));
    CHECK(reached(rig.streams()[0], 400 + 100 * static_cast<uint64_t>(lost)));
  }
  CHECK(!slow.over);
  slow.release();
  CHECK_EQ(slow.result, ncclSuccess);
  const auto everywhere = [&] { return rig.fabric.devsWith(0, slow.memory.data()) == std::vector<int>{0, 1, 2}; };
  CHECK(Rig::within(kLimitNs, everywhere));  // the lane that is left, and the anchors
  const int lanes = rig.fabric.lanes({0, 2});
  CHECK(lanes > 0);
  CHECK_EQ(rig.engine(0).deregMr(slow.comm, slow.handle), ncclSuccess);
  CHECK(rig.fabric.devsWith(0, slow.memory.data()).empty());
  finish(rig);
}

/// A lane that comes up needs all memory: it waits, and nobody else does.
TEST(net_slow_registration_on_a_fresh_lane) {
  Rig rig(rdma());
  halfWay(rig, {0}, 400);
  const Stream& s = rig.streams()[0];
  const auto buffers = s.sender->buffers();
  rig.fabric.holdMemory(buffers, true);
  for (int lost = 0; lost < 2; lost++) rig.link(0, lost, false);
  rig.link(0, 0, true);
  CHECK(Rig::within(kLimitNs, [&] { return rig.fabric.heldMemory(buffers) > 0; }));
  oneMore(rig, 2, 2);
  CHECK(rig.fabric.heldMemory(buffers) > 0);
  rig.fabric.holdMemory(buffers, false);
  rig.link(0, 2, true);
  finish(rig);
}

/// Taken back while it is being registered on a lane that comes up: it is over everywhere when deregMr returns.
TEST(net_slow_registration_deregistered_meanwhile) {
  Rig rig(rdma());
  halfWay(rig, {0}, 400);
  Registration memory(rig, rig.streams()[0]);
  memory.release();
  rig.fabric.holdMemory(memory.memory.data(), true);
  for (int lost = 0; lost < 2; lost++) rig.link(0, lost, false);
  rig.link(0, 0, true);
  CHECK(Rig::within(kLimitNs, [&] { return rig.fabric.heldMemory(memory.memory.data()) > 0; }));
  std::atomic<bool> over{false};
  ncclResult_t result = ncclInternalError;
  std::thread back([&] {
    result = rig.engine(0).deregMr(memory.comm, memory.handle);
    over = true;
  });
  CHECK(!Rig::within(kAWhileNs, [&] { return over.load(); }));
  rig.fabric.holdMemory(memory.memory.data(), false);
  back.join();
  CHECK_EQ(result, ncclSuccess);
  CHECK(rig.fabric.devsWith(0, memory.memory.data()).empty());
  finish(rig);
}

namespace {

constexpr int kTogether = 4;

/// Four streams lose their NIC, whose comms at `host` hang in `call`; a fifth goes on meanwhile, and so does a sixth.
void hang(int host, Fabric::Call call, Type nothingSays) {
  Rig rig(rdma());
  halfWay(rig, {0, 0, 0, 0, 1}, 400);
  rig.fabric.hold({host, 0}, call, true);
  const int said = rig.seen(nothingSays);
  rig.link(0, 0, false);
  for (const Stream& s : rig.streams()) limit(s, UINT64_MAX);
  CHECK(Rig::within(kLimitNs, [&] { return rig.fabric.held({host, 0}, call) >= kTogether; }));  // all at once
  CHECK(reached(rig.streams()[kTogether], 400));
  for (int i = 0; i < kTogether; i++) CHECK(rig.streams()[static_cast<size_t>(i)].receiver->done() < 400);
  CHECK_EQ(rig.seen(nothingSays), said);
  oneMore(rig, 2, 2);
  CHECK(rig.fabric.held({host, 0}, call) >= kTogether);
  rig.fabric.hold({host, 0}, call, false);
  finish(rig);
}

}  // namespace

TEST(net_slow_fence_at_the_sender) { hang(0, Fabric::Call::Fence, Type::Freeze); }
TEST(net_slow_fence_at_the_receiver) { hang(1, Fabric::Call::Fence, Type::Fenced); }
TEST(net_slow_drain_at_the_receiver) { hang(1, Fabric::Call::Drain, Type::Fenced); }

/// Both ends hang, and the lanes to go on with are lost as well.
TEST(net_slow_fence_and_a_second_fault) {
  for (int host = 0; host < 2; host++) {
    Rig rig(rdma());
    halfWay(rig, {0, 0, 1}, 400);
    for (int rail = 0; rail < 2; rail++) rig.fabric.hold({host, rail}, Fabric::Call::Fence, true);
    for (const Stream& s : rig.streams()) limit(s, UINT64_MAX);
    rig.link(0, 0, false);
    CHECK(Rig::within(kLimitNs, [&] { return rig.fabric.held({host, 0}, Fabric::Call::Fence) >= 2; }));
    rig.link(0, 1, false);
    if (host == 0) CHECK(Rig::within(kLimitNs, [&] { return rig.fabric.held({0, 1}, Fabric::Call::Fence) >= 1; }));
    rig.fabric.hold({host, 0}, Fabric::Call::Fence, false);
    rig.fabric.hold({host, 1}, Fabric::Call::Fence, false);
    finish(rig);
  }
}

/// Memory is NCCL's again only when no lane can touch it, and no error is told before.
TEST(net_slow_fence_and_memory_taken_away) {
  for (int host = 0; host < 2; host++) {
    Rig rig(rdma());
    halfWay(rig, {0}, 400);
    const Stream& s = rig.streams()[0];
    End& end = host == 0 ? *s.sender : *s.receiver;
    rig.fabric.cut({host, 0}, Cut::Hold);  // requests stay under way
    limit(s, UINT64_MAX);
    CHECK(Rig::within(kLimitNs, [&] { return static_cast<Connection*>(end.comm())->hasOutstanding(); }));
    rig.fabric.hold({host, 0}, Fabric::Call::Fence, true);
    rig.link(0, 0, false);
    CHECK(Rig::within(kLimitNs, [&] { return rig.fabric.held({host, 0}, Fabric::Call::Fence) > 0; }));
    std::atomic<bool> over{false};
    ncclResult_t result = ncclInternalError;
    std::thread takes([&] {
      result = rig.engine(host).deregMr(end.comm(), end.memory());
      over = true;
    });
    CHECK(!Rig::within(kAWhileNs, [&] { return over || end.state() == End::State::Failed; }));
    rig.fabric.hold({host, 0}, Fabric::Call::Fence, false);
    takes.join();
    CHECK_EQ(result, ncclSuccess);
    CHECK(Rig::within(kLimitNs, [&] {
      return s.sender->state() == End::State::Failed && s.receiver->state() == End::State::Failed;
    }));
    rig.stop();
    CHECK_EQ(s.receiver->wrong(), "");
    for (const std::string& v : rig.fabric.violations()) CHECK_EQ(v, "");
  }
}

/// A sender closes; the receiver, which asked for more, takes what has come and lets go of its lanes, however long that
/// takes.
TEST(net_slow_drain_and_a_farewell) {
  Rig rig(rdma());
  rig.stream(0, 1, 0, 200);
  rig.stream(0, 1, 1, 200);
  const Stream& first = rig.streams()[0];
  first.sender->limit = 100, first.receiver->limit = 104;
  rig.start();
  CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == 300 && first.sender->done() == 100; }));
  rig.fabric.hold({1, 0}, Fabric::Call::Drain, true);
  rig.stop();
  rig.streams()[0].sender->close();
  CHECK(Rig::within(kLimitNs, [&] { return rig.fabric.held({1, 0}, Fabric::Call::Drain) > 0; }));
  rig.stream(0, 1, 2, 100);
  rig.start();
  CHECK(reached(rig.streams()[2], 100));
  rig.fabric.hold({1, 0}, Fabric::Call::Drain, false);
  rig.stop();
  rig.closeStreams();
  for (int host = 0; host < 2; host++) rig.endEngine(host);
  CHECK(rig.fabric.counts().clean());
  for (const std::string& v : rig.fabric.violations()) CHECK_EQ(v, "");
}

/// The end waits for fences under way, and all is freed.
TEST(net_slow_fence_and_the_end) {
  Rig rig(rdma());
  halfWay(rig, {0, 0}, 400);
  rig.fabric.hold({0, 0}, Fabric::Call::Fence, true);
  rig.stop();
  for (const Stream& s : rig.streams()) s.sender->close();  // waits for nothing: its memory is on no lane that is lost
  CHECK(Rig::within(kLimitNs, [&] { return rig.fabric.held({0, 0}, Fabric::Call::Fence) >= 2; }));
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    rig.fabric.hold({0, 0}, Fabric::Call::Fence, false);
  });
  rig.endEngine(0);
  later.join();
  rig.closeStreams();
  rig.endEngine(1);
  CHECK(rig.fabric.counts().clean());
  for (const std::string& v : rig.fabric.violations()) CHECK_EQ(v, "");
}
