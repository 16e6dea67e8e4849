// Host-assisted staging over the fake fabric (both kinds: kernel buffers, and RDMA that wants memory registered).
#include <algorithm>
#include <cstring>

#include "check.h"
#include "memory/staging.h"
#include "rig/fabric/fake_copy.h"
#include "rig/fabric/fake_inner.h"
#include "rig/socket_pair.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

constexpr int64_t kLimitNs = msToNs(10000);
constexpr int kBuffers = 8;
constexpr size_t kBytes = 100000;

template <class What>
bool within(int64_t limitNs, const What& what) {
  const int64_t end = nowNs() + limitNs;
  while (!what()) {
    if (nowNs() > end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

Play play(bool needsAck) {
  Play play;
  play.needsAck = play.confirms = needsAck;
  return play;
}

/// A sender and a receiver on a staged net, each with buffers in "GPU" and in host memory.
struct Pair {
  explicit Pair(bool needsAck, const StagingLimits& limits = {}) : fabric(2, play(needsAck), 3) {
    auto owned = std::make_unique<FakeCopy>();
    copies = owned.get();
    net = std::make_unique<StagedNet>(
        fabric.inner(), std::move(owned), [this](const std::string& w) { warnings.push_back(w); }, limits);
    for (auto* memory : {&sendGpu, &recvGpu, &sendHost, &recvHost}) memory->resize(kBuffers * kBytes);
    copies->own(sendGpu.data(), sendGpu.size());
    copies->own(recvGpu.data(), recvGpu.size());
    connect();
    mrs[0] = reg(sender, sendGpu, NCCL_PTR_CUDA), mrs[1] = reg(sender, sendHost, NCCL_PTR_HOST);
    mrs[2] = reg(receiver, recvGpu, NCCL_PTR_CUDA), mrs[3] = reg(receiver, recvHost, NCCL_PTR_HOST);
  }
  ~Pair() {
    for (int i = 0; i < 4; i++) {
      void* comm = i < 2 ? sender : receiver;
      ops().fence(comm);
      CHECK_EQ(table().deregMr(comm, mrs[i]), ncclSuccess);
    }
    CHECK_EQ(table().closeSend(sender), ncclSuccess);
    CHECK_EQ(table().closeRecv(receiver), ncclSuccess);
    CHECK(fabric.counts().clean());
    for (const std::string& v : fabric.violations()) CHECK_EQ(v, "");
    CHECK_EQ(copies->misuse.load(), 0);
  }

  const ncclNet_t& table() const { return *net->net().net; }
  const InnerOps& ops() const { return *net->net().ops; }
  void connect() {
    InnerHandle handle{};
    void* listener = nullptr;
    CHECK_EQ(table().listen(net->context(fabric.context(1)), 0, handle.data(), &listener), ncclSuccess);
    CHECK(within(kLimitNs, [&] {
      if (sender == nullptr) table().connect(net->context(fabric.context(0)), 0, handle.data(), &sender, nullptr);
      if (receiver == nullptr) table().accept(listener, &receiver, nullptr);
      return sender != nullptr && receiver != nullptr;
    }));
    ops().cancelListen(listener);
  }
  void* reg(void* comm, std::vector<uint8_t>& memory, int type) {
    void* mr = nullptr;
    CHECK_EQ(table().regMr(comm, memory.data(), memory.size(), type, &mr), ncclSuccess);
    return mr;
  }
  /// Until the net takes it; null when it does not within the limit.
  void* send(uint64_t number, size_t size, bool gpu, int64_t limitNs = kLimitNs) {
    void* request = nullptr;
    within(limitNs, [&] {
      uint8_t* data = (gpu ? sendGpu : sendHost).data() + number % kBuffers * kBytes;
      return table().isend(sender, data, size, static_cast<int>(number), mrs[gpu ? 0 : 1], nullptr, &request) !=
                 ncclSuccess ||
             request != nullptr;
    });
    return request;
  }
  void* recv(uint64_t number, bool gpu, int64_t limitNs = kLimitNs) {
    void* request = nullptr;
    within(limitNs, [&] {
      void* data = (gpu ? recvGpu : recvHost).data() + number % kBuffers * kBytes;
      size_t size = kBytes;
      int tag = static_cast<int>(number);
      return table().irecv(receiver, 1, &data, &size, &tag, &mrs[gpu ? 2 : 3], nullptr, &request) != ncclSuccess ||
             request != nullptr;
    });
    return request;
  }
  bool done(void* request, int* size = nullptr) const {
    int is = 0;
    return request != nullptr && table().test(request, &is, size) == ncclSuccess && is != 0;
  }
  bool finishes(void* request, int* size = nullptr, int64_t limitNs = kLimitNs) const {
    return within(limitNs, [&] { return done(request, size); });
  }
  /// Both ends are tested in turn, as progress threads do.
  bool bothFinish(void* send, void* recv, int* size = nullptr) const {
    bool sent = false, received = false;
    return within(kLimitNs, [&] {
      sent = sent || done(send);
      received = received || done(recv, size);
      return sent && received;
    });
  }

  Fabric fabric;
  FakeCopy* copies;
  std::unique_ptr<StagedNet> net;
  void* sender = nullptr;
  void* receiver = nullptr;
  std::vector<uint8_t> sendGpu, recvGpu, sendHost, recvHost;
  void* mrs[4] = {};
  std::vector<std::string> warnings;
};

size_t sizeOf(uint64_t number) {
  static constexpr size_t kSizes[] = {1, 100, 0, 4096, 65536, kBytes, 70000, 8};
  return kSizes[number * 7 % 11 % std::size(kSizes)];
}
uint8_t byteOf(uint64_t number) { return static_cast<uint8_t>(number * 31 + 7); }

/// Messages of all sizes, in GPU memory at one end, the other, both or none; every byte is checked.
void stream(bool needsAck) {
  Pair pair(needsAck);
  pair.copies->longestNs = usToNs(300);
  constexpr uint64_t kMessages = 120;
  void* sends[kBuffers] = {};
  void* recvs[kBuffers] = {};
  int gpuSends = 0, gpuRecvs = 0;
  for (uint64_t n = 0; n < kMessages + kBuffers; n++) {
    if (n >= kBuffers) {
      const uint64_t old = n - kBuffers;
      int size = -1;
      CHECK(pair.bothFinish(sends[old % kBuffers], recvs[old % kBuffers], &size));
      CHECK_EQ(static_cast<size_t>(size), sizeOf(old));
      const auto& memory = old % 2 == 0 ? pair.recvGpu : pair.recvHost;
      const uint8_t* at = memory.data() + old % kBuffers * kBytes;
      CHECK(std::all_of(at, at + sizeOf(old), [&](uint8_t b) { return b == byteOf(old); }));
    }
    if (n >= kMessages) continue;
    const bool gpu = n % 3 != 0;
    memset((gpu ? pair.sendGpu : pair.sendHost).data() + n % kBuffers * kBytes, byteOf(n), kBytes);
    gpuSends += gpu && sizeOf(n) > 0;
    gpuRecvs += n % 2 == 0 && sizeOf(n) > 0;
    recvs[n % kBuffers] = pair.recv(n, n % 2 == 0);
    sends[n % kBuffers] = pair.send(n, sizeOf(n), gpu);
    CHECK(recvs[n % kBuffers] != nullptr && sends[n % kBuffers] != nullptr);
  }
  CHECK_EQ(pair.copies->toHosts.load(), gpuSends);
  CHECK_EQ(pair.copies->toDevices.load(), gpuRecvs);
  CHECK_EQ(pair.copies->allocThreads.count(std::this_thread::get_id()), 0u);  // pinning may wait for kernels
  CHECK(pair.warnings.empty());
}

/// Message 0 has arrived, and its copy to the GPU does not end.
void* arrivedAndHanging(Pair& pair) {
  memset(pair.sendHost.data(), 9, 1000);
  void* recv = pair.recv(0, true);
  CHECK(pair.finishes(pair.send(0, 1000, false)));
  pair.copies->hang = true;
  CHECK(within(kLimitNs, [&] { return !pair.done(recv) && pair.copies->toDevices == 1; }));
  return recv;
}

}  // namespace

TEST(net_staging_over_kernel_buffers) { stream(true); }
TEST(net_staging_over_rdma) { stream(false); }

TEST(net_staging_receive_is_done_when_its_copy_is) {
  Pair pair(true);
  void* recv = arrivedAndHanging(pair);
  for (int i = 0; i < 100; i++) CHECK(!pair.done(recv));
  CHECK_EQ(pair.recvGpu[0], 0);
  pair.copies->hang = false;
  int size = 0;
  CHECK(pair.finishes(recv, &size));
  CHECK_EQ(size, 1000);
  CHECK_EQ(pair.recvGpu[999], 9);
}

TEST(net_staging_tests_in_any_order) {
  for (const bool needsAck : {true, false}) {
    Pair pair(needsAck);
    CHECK(pair.ops().testsInAnyOrder);
    void* recvs[3] = {pair.recv(0, true), pair.recv(1, false), pair.recv(2, true)};
    void* sends[3] = {pair.send(0, 70000, true), pair.send(1, 10, false), pair.send(2, 5, true)};
    for (const int i : {2, 0, 1}) CHECK(pair.bothFinish(sends[i], recvs[i]));
  }
}

/// It would be asked with a comm of the wrong kind.
TEST(net_staging_does_not_say_what_a_kernel_has) {
  Pair pair(true);
  CHECK(pair.fabric.inner().ops->unconfirmed != nullptr);
  CHECK(pair.ops().unconfirmed == nullptr);
}

TEST(net_staging_no_copy_after_fence) {
  Pair pair(true);
  void* recv = arrivedAndHanging(pair);
  CHECK(!pair.done(recv));
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    pair.copies->hang = false;
  });
  pair.ops().fence(pair.receiver);
  CHECK_EQ(pair.copies->running.load(), 0);
  later.join();
  CHECK_EQ(pair.recvGpu[0], 9);  // it ended whole, before fence returned

  pair.copies->longestNs = msToNs(20);
  CHECK(pair.send(1, 1000, true) != nullptr);
  pair.ops().fence(pair.sender);
  CHECK_EQ(pair.copies->running.load(), 0);
  CHECK(pair.warnings.empty());
}

TEST(net_staging_drain_finishes_what_arrived) {
  Pair pair(true);
  void* arrived = arrivedAndHanging(pair);
  void* missing = pair.recv(1, true);
  pair.copies->hang = false;
  pair.copies->longestNs = msToNs(20);
  pair.ops().drain(pair.receiver);
  int done = 0;
  CHECK_EQ(pair.table().test(arrived, &done, nullptr), ncclSuccess);
  CHECK_EQ(done, 1);
  CHECK(!pair.done(missing));
}

TEST(net_staging_drained_sends_never_leave) {
  Pair pair(true);
  pair.copies->hang = true;
  void* recv = pair.recv(0, false);
  CHECK(pair.send(0, 1000, true) != nullptr);
  pair.ops().drain(pair.sender);
  pair.copies->hang = false;
  CHECK(!pair.finishes(recv, nullptr, msToNs(20)));
}

TEST(net_staging_copy_that_never_ends) {
  StagingLimits limits;
  limits.copyNs = msToNs(10);
  Pair pair(true, limits);
  CHECK(arrivedAndHanging(pair) != nullptr);
  pair.ops().fence(pair.receiver);
  CHECK_EQ(pair.warnings.size(), 1u);
  CHECK(pair.send(1, 8, true, msToNs(5)) == nullptr);  // memory may still be written to: nothing more is staged
}

TEST(net_staging_failed_copy) {
  Pair pair(true);
  void* recv = arrivedAndHanging(pair);
  pair.copies->failNext = true;
  pair.copies->hang = false;
  int done = 0;
  CHECK_EQ(pair.table().test(recv, &done, nullptr), ncclUnhandledCudaError);
  CHECK(done == 0 && pair.recv(1, true, msToNs(5)) == nullptr);
  CHECK_EQ(pair.warnings.size(), 1u);
}

TEST(net_staging_error_of_the_wire) {
  Pair pair(true);
  void* recv = pair.recv(0, true);
  pair.fabric.breakComms({1, 0});
  int done = 0;
  CHECK_EQ(pair.table().test(recv, &done, nullptr), ncclRemoteError);
}

TEST(net_staging_deregister_in_use) {
  Pair pair(true);
  void* recv = pair.recv(0, true);
  CHECK_EQ(pair.table().deregMr(pair.receiver, pair.mrs[2]), ncclSuccess);
  pair.mrs[2] = nullptr;
  CHECK(pair.send(0, 1000, true) != nullptr);
  int done = 0;
  CHECK_EQ(pair.table().test(recv, &done, nullptr), ncclInvalidUsage);
  CHECK_EQ(pair.copies->toDevices.load(), 0);
}

TEST(net_staging_refuses_what_is_no_gpu_memory) {
  Pair pair(true);
  void* mr = nullptr;
  CHECK_EQ(pair.table().regMr(pair.sender, pair.sendHost.data(), 8, NCCL_PTR_CUDA, &mr), ncclInvalidUsage);
  CHECK(mr == nullptr);
}

TEST(net_staging_no_memory_to_pin) {
  Pair pair(true);
  pair.copies->largestPinned = 65536;
  CHECK(pair.recv(0, true, msToNs(200)) == nullptr);
  CHECK_EQ(pair.warnings.size(), 1u);
  CHECK(pair.finishes(pair.send(0, 8, true)));
}

TEST(net_bounce_pool_is_bounded_and_starves_nobody) {
  FakeCopy copies;
  {
    BouncePool pool(copies, size_t{2} * 65536);
    const auto take = [&](bool first) {
      Bounce* got = nullptr;
      within(first ? kLimitNs : msToNs(50), [&] { return pool.take(1000, first, &got) == BouncePool::Answer::Taken; });
      return got;
    };
    Bounce* a = take(true);
    Bounce* b = take(false);
    CHECK(a != nullptr && b != nullptr && a != b);
    CHECK(take(false) == nullptr);
    CHECK_EQ(pool.bytes(), 2u * 65536);
    Bounce* c = take(true);  // another comm, which holds none
    CHECK(c != nullptr);
    pool.give(a);
    CHECK(take(false) == nullptr);  // over the limit, what is free is for those who hold none
    CHECK(take(true) == a);
    CHECK_EQ(pool.bytes(), 3u * 65536);
    CHECK_EQ(copies.allocThreads.count(std::this_thread::get_id()), 0u);
    for (Bounce* bounce : {a, b, c}) pool.give(bounce);
  }
  CHECK_EQ(copies.pinned.load(), 0);
}

TEST(net_bounce_pool_reserve) {
  FakeCopy copies;
  BouncePool pool(copies, size_t{10} * 65536);
  pool.reserve(100, 4);
  pool.reserve(65536, 4);
  CHECK_EQ(pool.bytes(), 4u * 65536);
  Bounce* got = nullptr;
  CHECK(pool.take(1, false, &got) == BouncePool::Answer::Taken);
  pool.give(got);
  pool.reserve(65537, 100);
  CHECK_EQ(pool.bytes(), 10u * 65536);
  copies.largestPinned = 0;
  CHECK(pool.take(1 << 20, true, &got) == BouncePool::Answer::NotYet);
  CHECK(within(kLimitNs, [&] { return pool.take(1 << 20, true, &got) == BouncePool::Answer::Never; }));
}

/// The door before the socket transport's accept stands before the staged net's, too.
TEST(net_staging_keeps_the_door_of_the_sockets) {
  const InnerNet sockets = socketNet();
  StagedNet staged(sockets, std::make_unique<FakeCopy>(), nullptr);
  const InnerNet net = staged.net();
  CHECK(net.ops->accept != sockets.ops->accept && net.ops->lockListen != sockets.ops->lockListen);
  InnerHandle handle{};
  void *listener = nullptr, *sender = nullptr, *receiver = nullptr;
  uint64_t refused = 0;
  CHECK_EQ(net.net->listen(staged.context(nullptr), 0, handle.data(), &listener), ncclSuccess);
  net.ops->lockListen(listener, handle.data(), 42);
  CHECK(net.ops->unlockHandle(handle.data(), 42));
  CHECK(within(kLimitNs, [&] {
    if (sender == nullptr) net.net->connect(staged.context(nullptr), 0, handle.data(), &sender, nullptr);
    if (receiver == nullptr) net.ops->accept(listener, &receiver, &refused);
    return sender != nullptr && receiver != nullptr;
  }));
  CHECK_EQ(refused, 0u);
  net.ops->tune(sender), net.ops->tune(receiver);
  net.ops->cancelListen(listener);
  for (void* comm : {sender, receiver}) net.ops->fence(comm);
  CHECK_EQ(net.net->closeSend(sender), ncclSuccess);
  CHECK_EQ(net.net->closeRecv(receiver), ncclSuccess);
}
