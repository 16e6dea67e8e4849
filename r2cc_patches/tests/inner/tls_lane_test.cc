// Encrypted comms of the fork's own socket transport over loopback: what they carry, who gets in, and who cannot keep
// others out.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <numeric>
#include <optional>

#include "base/clock.h"
#include "check.h"
#include "own_process.h"
#include "rig/caller.h"
#include "rig/socket_pair.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

constexpr uint64_t kSecret = 0x1122334455667788;
constexpr int kTypeNetSocket = 3;
constexpr TlsKey kKey{9, 8, 7}, kOther{9, 8, 6};
constexpr int64_t kLimitNs = msToNs(20000);

/// How many sockets the transport uses for a comm beside the first.
struct Sockets {
  explicit Sockets(const char* threads, const char* each) {
    setenv("NCCL_SOCKET_NTHREADS", threads, 1);
    setenv("NCCL_NSOCKS_PERTHREAD", each, 1);
  }
  ~Sockets() {
    unsetenv("NCCL_SOCKET_NTHREADS");
    unsetenv("NCCL_NSOCKS_PERTHREAD");
  }
  Sockets(const Sockets&) = delete;
  Sockets& operator=(const Sockets&) = delete;
};

/// A listen that encrypts, and one end or both of what it made.
class Lane {
 public:
  Lane() {
    CHECK_EQ(socketNet().net->listen(nullptr, 0, handle.data(), &listener_), ncclSuccess);
    r2ccNetSocketOps.lockListen(listener_, handle.data(), kSecret);
    r2ccNetSocketOps.encryptListen(listener_, kKey);
  }
  ~Lane() {
    cancel();
    for (void* comm : {sender, receiver}) {
      if (comm == nullptr) continue;
      r2ccNetSocketOps.fence(comm);
      (void)socketNet().net->closeSend(comm);
    }
  }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  void dial(const std::optional<TlsKey>& key) {
    dialled_ = handle;
    CHECK(r2ccNetSocketOps.unlockHandle(dialled_.data(), kSecret));
    if (key) r2ccNetSocketOps.encryptConnect(dialled_.data(), *key);
    dials_ = true;
  }
  /// One call of each end's; false: the connect failed.
  bool step() {
    if (receiver == nullptr) CHECK_EQ(r2ccNetSocketOps.accept(listener_, &receiver, &refused), ncclSuccess);
    if (!dials_ || sender != nullptr) return true;
    if (r2ccNetSocketOps.connect(0, dialled_.data(), &sender) == ncclSuccess) return true;
    return hangUp(), false;
  }
  bool connected() const { return sender != nullptr && receiver != nullptr; }
  void hangUp() {
    if (dials_ && sender == nullptr) r2ccNetSocketOps.cancelConnect(dialled_.data());
    dials_ = false;
  }
  void cancel() {
    hangUp();
    if (listener_ != nullptr) r2ccNetSocketOps.cancelListen(listener_);
    listener_ = nullptr;
  }
  bool pass(size_t size) const {
    std::vector<uint8_t> out(size), in(size);
    std::iota(out.begin(), out.end(), uint8_t{1});
    void *data = in.data(), *mr = nullptr, *requests[2] = {};
    int tag = 0, done[2] = {};
    const auto& net = *socketNet().net;
    CHECK_EQ(net.irecv(receiver, 1, &data, &size, &tag, &mr, nullptr, &requests[0]), ncclSuccess);
    CHECK_EQ(net.isend(sender, out.data(), out.size(), 0, nullptr, nullptr, &requests[1]), ncclSuccess);
    const bool ended = spin(kLimitNs, [&] {
      for (int i = 0; i < 2; i++) {
        if (done[i] == 0 && net.test(requests[i], &done[i], nullptr) != ncclSuccess) return true;
      }
      return done[0] != 0 && done[1] != 0;
    });
    return ended && done[0] != 0 && done[1] != 0 && in == out;
  }

  InnerHandle handle{};
  uint64_t refused = 0;
  void *sender = nullptr, *receiver = nullptr;

 private:
  void* listener_ = nullptr;
  InnerHandle dialled_{};
  bool dials_ = false;
};

}  // namespace

TEST(net_tls_lane_carries_messages_of_all_sizes) {
  (void)socketNet();
  const int before = check::descriptors();
  for (const auto& [threads, each] : {std::pair("0", "1"), std::pair("2", "2")}) {
    const Sockets sockets(threads, each);
    Lane lane;
    lane.dial(kKey);
    CHECK(spin(kLimitNs, [&] { return !lane.step() || lane.connected(); }));
    CHECK(lane.connected());
    if (!lane.connected()) return;
    for (const size_t size : {size_t{0}, size_t{1}, size_t{128}, size_t{129}, size_t{70000}, size_t{3000000}}) {
      CHECK(lane.pass(size));
    }
    CHECK_EQ(lane.refused, 0u);
  }
  CHECK_EQ(check::descriptors(), before);
}

/// Who has heard a greeting before may repeat it, and no more: callers who then say nothing, or anything, hold nobody
/// up.
TEST(net_tls_lane_strangers_with_the_greeting_hold_nobody_up) {
  (void)socketNet();
  const Sockets sockets("0", "1");
  const int before = check::descriptors();
  {
    Lane lane;
    std::vector<std::unique_ptr<Caller>> strangers;
    for (int i = 0; i < 40; i++) {
      strangers.push_back(std::make_unique<Caller>(lane.handle));
      strangers.back()->greet(kSecret, kTypeNetSocket, {0});
      if (i % 3 == 1) strangers.back()->say(std::vector<uint8_t>(600, static_cast<uint8_t>(i)));
      if (i % 3 == 2) strangers.back()->say({22, 3, 1, 0});  // as a hand-shake begins
    }
    (void)spin(msToNs(30), [&] { return lane.step(), false; });
    CHECK(lane.receiver == nullptr);
    lane.dial(kKey);
    const int64_t began = nowNs();
    CHECK(spin(kLimitNs, [&] { return !lane.step() || lane.connected(); }));
    CHECK(nowNs() - began < msToNs(5000));
    CHECK(lane.connected());
    CHECK(lane.connected() && lane.pass(100000));
    CHECK(lane.refused >= 24);
  }
  CHECK_EQ(check::descriptors(), before);
}

TEST(net_tls_lane_only_the_key_opens_it) {
  (void)socketNet();
  const Sockets sockets("0", "1");
  const int before = check::descriptors();
  {
    Lane lane;
    for (const auto& key : {std::optional<TlsKey>(kOther), std::optional<TlsKey>()}) {
      lane.dial(key);
      (void)spin(msToNs(200), [&] { return !lane.step(); });
      CHECK(lane.receiver == nullptr);
      if (key) CHECK(lane.sender == nullptr);  // one in the clear thinks that it is connected, until it says something
      if (lane.sender != nullptr) r2ccNetSocketOps.fence(lane.sender), (void)socketNet().net->closeSend(lane.sender);
      lane.sender = nullptr;
      lane.hangUp();
    }
    lane.dial(kKey);
    CHECK(spin(kLimitNs, [&] { return !lane.step() || lane.connected(); }));
    CHECK(lane.connected() && lane.pass(1000));
  }
  CHECK_EQ(check::descriptors(), before);
}

/// In every state of a hand-shake, at either end.
TEST(net_tls_lane_is_given_up_at_once) {
  (void)socketNet();
  const Sockets sockets("0", "1");
  const int before = check::descriptors();
  for (int steps = 0; steps < 12; steps++) {
    Lane lane;
    lane.dial(kKey);
    for (int i = 0; i < steps; i++) lane.step();
    const check::Took took;
    if (!lane.connected()) lane.cancel();
    CHECK(took.ns() < msToNs(500));
  }
  CHECK_EQ(check::descriptors(), before);
}

/// A lane that is lost while much of a message is on its way: fenced and closed, whatever is not sent. The sender's
/// calls may say so, and need not: a window that was full when its reader left never opens, and TCP then only asks
/// again.
TEST(net_tls_lane_is_lost_in_the_middle) {
  (void)socketNet();
  for (const auto& [threads, each] : {std::pair("0", "1"), std::pair("2", "1")}) {
    const Sockets sockets(threads, each);
    const int before = check::descriptors();
    {
      Lane lane;
      lane.dial(kKey);
      CHECK(spin(kLimitNs, [&] { return !lane.step() || lane.connected(); }));
      if (!lane.connected()) return;
      std::vector<uint8_t> out(30000000, 5);
      void* request = nullptr;
      const auto& net = *socketNet().net;
      CHECK_EQ(net.isend(lane.sender, out.data(), out.size(), 0, nullptr, nullptr, &request), ncclSuccess);
      int done = 0;
      (void)spin(msToNs(20), [&] { return net.test(request, &done, nullptr) != ncclSuccess; });
      CHECK_EQ(done, 0);
      r2ccNetSocketOps.fence(lane.receiver);
      ncclResult_t result = ncclSuccess;
      CHECK(spin(kLimitNs, [&] {
        result = net.test(request, &done, nullptr);
        return result != ncclSuccess || r2ccNetSocketOps.ended(lane.sender);
      }));
      CHECK(result == ncclSuccess || result == ncclRemoteError);
      CHECK(r2ccNetSocketOps.ended(lane.sender));
      CHECK_EQ(done, 0);
    }
    CHECK_EQ(check::descriptors(), before);
  }
}
