// The door of a lane's listening socket, with the fork's real socket transport on loopback: who gets in, and who cannot
// keep others out.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/clock.h"
#include "check.h"
#include "inner/inner_net.h"
#include "own_process.h"
#include "rig/caller.h"
#include "rig/socket_pair.h"

using namespace r2cc;

namespace {

constexpr uint64_t kSecret = 0x1122334455667788;
constexpr int kTypeNetSocket = 3;
constexpr size_t kMagicAt = 32;  // in a handle: behind a socket address, aligned

void quiet(ncclDebugLogLevel, unsigned long, const char*, int, const char*, ...) {}

/// A locked listen, as the receiver of a lane makes it.
class Listening {
 public:
  Listening() {
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    setenv("NCCL_SOCKET_NTHREADS", "0", 1);  // given, the transport need not look for a device that "lo" has not
    setenv("NCCL_NSOCKS_PERTHREAD", "1", 1);
    CHECK_EQ(ncclNetSocket.init(&ctx_, 0, nullptr, quiet, nullptr), ncclSuccess);
    CHECK_EQ(ncclNetSocket.listen(ctx_, 0, handle.data(), &listenComm_), ncclSuccess);
    r2ccNetSocketOps.lockListen(listenComm_, handle.data(), kSecret);
  }
  ~Listening() {
    if (listenComm_ != nullptr) r2ccNetSocketOps.cancelListen(listenComm_);
    (void)ncclNetSocket.finalize(ctx_);
    for (const char* name : {"NCCL_SOCKET_IFNAME", "NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD"}) unsetenv(name);
  }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

  /// Accepts for a while; the comm if one came.
  void* accept(int64_t limitNs) {
    const int64_t until = nowNs() + limitNs;
    void* comm = nullptr;
    while (comm == nullptr && nowNs() < until) {
      CHECK_EQ(r2ccNetSocketOps.accept(listenComm_, &comm, &refused), ncclSuccess);
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    return comm;
  }
  /// The genuine sender and what it got.
  void* dial(uint64_t secret) {
    mine_ = handle;
    CHECK(r2ccNetSocketOps.unlockHandle(mine_.data(), secret));
    void* comm = nullptr;
    const int64_t until = nowNs() + msToNs(2000);
    while (comm == nullptr && nowNs() < until) {
      CHECK_EQ(ncclNetSocket.connect(ctx_, 0, mine_.data(), &comm, nullptr), ncclSuccess);
    }
    return comm;
  }
  InnerHandle handle{};
  uint64_t refused = 0;

 private:
  void* ctx_ = nullptr;
  void* listenComm_ = nullptr;
  InnerHandle mine_{};
};

/// Sends one message over the pair and closes it.
void exchange(void* sender, void* receiver) {
  CHECK(sender != nullptr && receiver != nullptr);
  if (sender == nullptr || receiver == nullptr) return;
  std::vector<uint8_t> out(100000, 7);
  std::vector<uint8_t> in(out.size(), 0);
  void* data = in.data();
  size_t size = in.size();
  int tag = 0;
  void* mr = nullptr;
  void* requests[2] = {};
  CHECK_EQ(ncclNetSocket.irecv(receiver, 1, &data, &size, &tag, &mr, nullptr, &requests[0]), ncclSuccess);
  CHECK_EQ(ncclNetSocket.isend(sender, out.data(), out.size(), 0, nullptr, nullptr, &requests[1]), ncclSuccess);
  int done[2] = {};
  const int64_t until = nowNs() + msToNs(2000);
  while ((!done[0] || !done[1]) && nowNs() < until) {
    for (int i = 0; i < 2; i++) {
      if (!done[i]) CHECK_EQ(ncclNetSocket.test(requests[i], &done[i], nullptr), ncclSuccess);
    }
  }
  CHECK(in == out);
  r2ccNetSocketOps.fence(sender), r2ccNetSocketOps.fence(receiver);
  (void)ncclNetSocket.closeSend(sender), (void)ncclNetSocket.closeRecv(receiver);
}

}  // namespace

/// Forty callers who say nothing, or half of it, come before the one who is expected.
TEST(net_gate_silent_callers_hold_nobody_up) {
  const int before = check::descriptors();
  {
    Listening door;
    std::vector<std::unique_ptr<Caller>> silent;
    for (int i = 0; i < 40; i++) {
      silent.push_back(std::make_unique<Caller>(door.handle));
      CHECK(silent.back()->connected);
      if (i % 2 == 0) silent.back()->say({0x88, 0x77, 0x66});  // as the secret begins
    }
    CHECK(door.accept(msToNs(20)) == nullptr);
    const int held = check::descriptors();
    CHECK(held <= before + 40 + 16 + 4);  // theirs, the queue, the listen
    void* sender = door.dial(kSecret);
    exchange(sender, door.accept(msToNs(2000)));
    CHECK(door.refused >= 40);
  }
  CHECK_EQ(check::descriptors(), before);
}

/// What NCCL's own accept would take for the sender, and what it would write outside of its comm for.
TEST(net_gate_only_the_secret_opens_it) {
  const int before = check::descriptors();
  {
    Listening door;
    const uint64_t told = [&] {
      uint64_t magic = 1;
      memcpy(&magic, door.handle.data() + kMagicAt, sizeof(magic));
      return magic;
    }();
    CHECK_EQ(told, 0u);  // the handle, which travels in the clear, does not tell
    for (const uint64_t magic : {kPublicMagic, uint64_t{0}, told, kSecret ^ 1, kSecret ^ (uint64_t{1} << 63)}) {
      Caller stranger(door.handle);
      stranger.greet(magic, kTypeNetSocket, {0});
      CHECK(door.accept(msToNs(10)) == nullptr);
      CHECK(stranger.refused());
    }
    for (const int index : {1, 63, 64, 200, 255}) {  // no such socket: nSocks is 0
      Caller broken(door.handle);
      broken.greet(kSecret, kTypeNetSocket, {static_cast<uint8_t>(index)});
      CHECK(door.accept(msToNs(10)) == nullptr);
      CHECK(broken.refused());
    }
    Caller garbage(door.handle);
    garbage.say(std::vector<uint8_t>(4096, 0x41));
    CHECK(door.accept(msToNs(10)) == nullptr);
    {
      const Caller scan(door.handle);  // connects and leaves, as a port scan does
      CHECK(scan.connected);
    }
    CHECK(door.accept(msToNs(10)) == nullptr);
    CHECK_EQ(door.refused, 12u);
    void* sender = door.dial(kSecret);
    exchange(sender, door.accept(msToNs(2000)));
  }
  CHECK_EQ(check::descriptors(), before);
}

/// What a broken peer puts into a handle would be indexed with, or followed.
TEST(net_gate_handles_are_checked) {
  Listening door;

  const size_t socksAt = kMagicAt + 8, threadsAt = socksAt + 4, stageAt = threadsAt + 4;
  const auto opens = [&](size_t at, const std::vector<uint8_t>& bytes) {
    InnerHandle handle = door.handle;
    std::copy(bytes.begin(), bytes.end(), handle.begin() + static_cast<std::ptrdiff_t>(at));
    const bool ok = r2ccNetSocketOps.unlockHandle(handle.data(), kSecret);
    // Nothing of a half-made comm survives: connect() and cancelConnect() would follow it.
    const bool clean =
        std::all_of(handle.begin() + stageAt, handle.begin() + stageAt + 24, [](uint8_t b) { return b == 0; });
    if (ok) CHECK(clean);
    return ok;
  };
  CHECK(opens(stageAt, std::vector<uint8_t>(24, 0x41)));
  CHECK(!opens(0, {99, 0}));                          // no such family
  CHECK(!opens(socksAt, {65, 0, 0, 0, 1, 0, 0, 0}));  // more sockets than a comm has room for
  CHECK(!opens(socksAt, {255, 255, 255, 255}));
  CHECK(!opens(socksAt, {8, 0, 0, 0, 17, 0, 0, 0}));
  CHECK(!opens(socksAt, {8, 0, 0, 0, 0, 0, 0, 0}));  // would divide by zero
  CHECK(!opens(socksAt, {8, 0, 0, 0, 3, 0, 0, 0}));
  CHECK(opens(socksAt, {8, 0, 0, 0, 2, 0, 0, 0}));
}
