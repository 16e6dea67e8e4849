// A peer of the fork's socket transport that stops in the middle of a message, wherever that is: nobody waits in a call
// for the rest. Over loopback, with an end that says what the test likes.
#include <arpa/inet.h>
#include <linux/tcp.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <memory>
#include <numeric>

#include "base/clock.h"
#include "check.h"
#include "rig/caller.h"
#include "rig/socket_pair.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

constexpr uint64_t kSecret = 0x1122334455667788;
constexpr int kTypeNetSocket = 3;
constexpr size_t kSizeBytes = 4;  // what a message begins with
constexpr size_t kInline = 100;   // goes with the size
constexpr size_t kLarge = 5000;   // does not
constexpr size_t kGreeting = 13;
constexpr int64_t kLimitNs = msToNs(10000);

/// A call that never returns ends the test's process.
struct Watchdog {
  Watchdog() { alarm(60); }
  ~Watchdog() { alarm(0); }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
};

std::vector<uint8_t> numbered(size_t size, uint8_t first) {
  std::vector<uint8_t> out(size);
  std::iota(out.begin(), out.end(), first);
  return out;
}

/// As it goes over the wire.
std::vector<uint8_t> framed(const std::vector<uint8_t>& message) {
  std::vector<uint8_t> out;
  Writer w(out);
  w(static_cast<int32_t>(message.size()));
  out.insert(out.end(), message.begin(), message.end());
  return out;
}

/// A receiving comm, and who is at its other end.
class Receiver {
 public:
  Receiver() {
    InnerHandle handle{};
    void* listener = nullptr;
    CHECK_EQ(socketNet().net->listen(nullptr, 0, handle.data(), &listener), ncclSuccess);
    r2ccNetSocketOps.lockListen(listener, handle.data(), kSecret);
    peer = std::make_unique<Caller>(handle);
    peer->greet(kSecret, kTypeNetSocket, {0});
    uint64_t refused = 0;
    CHECK(spin(kLimitNs, [&] {
      CHECK_EQ(r2ccNetSocketOps.accept(listener, &comm_, &refused), ncclSuccess);
      return comm_ != nullptr;
    }));
    r2ccNetSocketOps.cancelListen(listener);
  }
  ~Receiver() {
    if (comm_ == nullptr) return;
    r2ccNetSocketOps.fence(comm_);
    (void)socketNet().net->closeRecv(comm_);
  }
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  void* ask(std::vector<uint8_t>& into) {
    void *data = into.data(), *mr = nullptr, *request = nullptr;
    size_t size = into.size();
    int tag = 0;
    CHECK_EQ(socketNet().net->irecv(comm_, 1, &data, &size, &tag, &mr, nullptr, &request), ncclSuccess);
    return request;
  }
  std::unique_ptr<Caller> peer;

 private:
  void* comm_ = nullptr;
};

/// Says `bytes` one by one, and looks after each whether it is there: it must only be so after the last.
void sayByBytes(const Receiver& receiver, const std::vector<uint8_t>& bytes, void* request, size_t expected) {
  int done = 0, size = -1, early = 0;
  for (size_t i = 0; i < bytes.size(); i++) {
    early += done;
    receiver.peer->say({bytes[i]});
    for (int n = 0; n < 3; n++) {
      if (done == 0) CHECK_EQ(socketNet().net->test(request, &done, &size), ncclSuccess);
    }
  }
  CHECK_EQ(early, 0);
  CHECK(spin(kLimitNs, [&] { return done != 0 || socketNet().net->test(request, &done, &size) != ncclSuccess; }));
  CHECK(done != 0 && size == static_cast<int>(expected));
}

/// How the first message ends when `bytes` of it are there and the peer then goes.
ncclResult_t endAfter(const std::vector<uint8_t>& message, size_t bytes, bool reset) {
  Receiver receiver;
  std::vector<uint8_t> into(kLarge);
  void* request = receiver.ask(into);
  const std::vector<uint8_t> wire = framed(message);
  receiver.peer->say({wire.begin(), wire.begin() + static_cast<std::ptrdiff_t>(bytes)});
  int done = 0, size = 0;
  const auto waits = [&] { return socketNet().net->test(request, &done, &size) != ncclSuccess || done != 0; };
  CHECK(!spin(msToNs(20), waits));  // it stalls there
  if (reset) receiver.peer->reset();
  receiver.peer.reset();
  ncclResult_t result = ncclSuccess;
  CHECK(spin(kLimitNs, [&] { return (result = socketNet().net->test(request, &done, &size)) != ncclSuccess; }));
  CHECK_EQ(done, 0);
  return result;
}

/// A sending comm whose other end is a plain socket that reads when the test says so.
class Sender {
 public:
  /// `lane`: one of ours, as in every mode but stock's.
  explicit Sender(bool lane) : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    InnerHandle handle{};
    void* other = nullptr;
    CHECK_EQ(socketNet().net->listen(nullptr, 0, handle.data(), &other), ncclSuccess);
    r2ccNetSocketOps.cancelListen(other);
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(here);
    const int room = 4096;
    CHECK_EQ(setsockopt(listener_, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)), 0);
    CHECK_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&here), size), 0);
    CHECK_EQ(listen(listener_, 1), 0);
    CHECK_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&here), &size), 0);
    memcpy(handle.data(), &here, sizeof(here));
    CHECK(r2ccNetSocketOps.unlockHandle(handle.data(), kSecret));
    CHECK(spin(kLimitNs, [&] {
      CHECK_EQ(socketNet().net->connect(nullptr, 0, handle.data(), &comm_, nullptr), ncclSuccess);
      return comm_ != nullptr;
    }));
    peer_ = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    std::vector<uint8_t> greeting(kGreeting);
    CHECK(spin(kLimitNs, [&] { return recv(peer_, greeting.data(), kGreeting, 0) == kGreeting; }));
    if (lane && comm_ != nullptr) r2ccNetSocketOps.tune(comm_);
  }
  ~Sender() {
    if (comm_ != nullptr) r2ccNetSocketOps.fence(comm_), (void)socketNet().net->closeSend(comm_);
    leave();
    close(listener_);
  }
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  /// Whether the message is in the kernel within a while; `request` is what goes on with it otherwise.
  bool send(std::vector<uint8_t>& message, void** request) const {
    const auto& net = *socketNet().net;
    CHECK_EQ(net.isend(comm_, message.data(), message.size(), 0, nullptr, nullptr, request), ncclSuccess);
    return test(*request, msToNs(20)) == 1;
  }
  /// 1: done. 0: still not after that time. -1: an error.
  static int test(void* request, int64_t limitNs) {
    int done = 0;
    ncclResult_t result = ncclSuccess;
    (void)spin(limitNs, [&] {
      result = socketNet().net->test(request, &done, nullptr);
      return result != ncclSuccess || done != 0;
    });
    return result != ncclSuccess ? -1 : done;
  }
  /// What lies there.
  std::vector<uint8_t> read() const {
    std::vector<uint8_t> out(1 << 16);
    const ssize_t got = recv(peer_, out.data(), out.size(), 0);
    out.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
    return out;
  }
  /// How many packets with data came there so far.
  unsigned packets() const {
    tcp_info info{};
    socklen_t size = sizeof(info);
    CHECK_EQ(getsockopt(peer_, IPPROTO_TCP, TCP_INFO, &info, &size), 0);
    return info.tcpi_data_segs_in;
  }
  void leave() {
    if (peer_ >= 0) close(peer_);
    peer_ = -1;
  }

 private:
  const int listener_;
  void* comm_ = nullptr;
  int peer_ = -1;
};

}  // namespace

TEST(net_stream_comes_byte_by_byte) {
  const Watchdog watchdog;
  Receiver receiver;
  for (const size_t bytes : {kInline, kLarge, size_t{0}, size_t{1}, kInline}) {
    std::vector<uint8_t> into(kLarge), message = numbered(bytes, static_cast<uint8_t>(bytes));
    void* request = receiver.ask(into);
    sayByBytes(receiver, framed(message), request, bytes);
    into.resize(bytes);
    CHECK(into == message);
  }
}

/// Every place at which a stream can stop: in the size, behind it, in what goes with it, in what comes on its own.
TEST(net_stream_stalls_and_goes_on) {
  const Watchdog watchdog;
  const std::vector<uint8_t> inlined = numbered(kInline, 3), large = numbered(kLarge, 5);
  for (const auto& first : {inlined, large}) {
    for (const size_t stop : {size_t{1}, size_t{2}, size_t{3}, kSizeBytes, kSizeBytes + 1, kInline}) {
      Receiver receiver;
      std::vector<uint8_t> wire = framed(first), next = framed(inlined), into(kLarge), behind(kInline);
      wire.insert(wire.end(), next.begin(), next.end());
      void *request = receiver.ask(into), *second = receiver.ask(behind);
      receiver.peer->say({wire.begin(), wire.begin() + static_cast<std::ptrdiff_t>(stop)});
      int done = 0, size = 0;
      const auto finished = [&](void* which) {
        CHECK_EQ(socketNet().net->test(which, &done, &size), ncclSuccess);
        return done != 0;
      };
      CHECK(!spin(msToNs(10), [&] { return finished(request); }));
      receiver.peer->say({wire.begin() + static_cast<std::ptrdiff_t>(stop), wire.end()});
      CHECK(spin(kLimitNs, [&] { return finished(request); }));
      CHECK(size == static_cast<int>(first.size()) && std::equal(first.begin(), first.end(), into.begin()));
      CHECK(spin(kLimitNs, [&] { return finished(second); }));
      CHECK(size == static_cast<int>(kInline) && behind == inlined);
    }
  }
}

TEST(net_stream_ends_in_the_middle) {
  const Watchdog watchdog;
  for (const size_t bytes : {kInline, kLarge}) {
    const std::vector<uint8_t> message = numbered(bytes, 1);
    for (const size_t stop : {size_t{0}, size_t{1}, size_t{2}, size_t{3}, kSizeBytes, kSizeBytes + 50}) {
      CHECK_EQ(endAfter(message, stop, false), ncclRemoteError);
      CHECK_EQ(endAfter(message, stop, true), ncclRemoteError);
    }
  }
}

/// Stock's sockets make two packets of a message whose data does not go with its size, and a lane one: the bytes are
/// the same. Where an acknowledgement is late the kernel sends a packet again, so the fewest of some messages count.
TEST(net_stream_of_a_lane_is_one_packet_a_message) {
  constexpr int kMessages = 20;
  const Watchdog watchdog;
  for (const bool lane : {false, true}) {
    Sender sender(lane);
    const unsigned wanted = lane ? 1 : 2;
    unsigned fewest = UINT_MAX;
    for (int i = 0; i < kMessages && fewest > wanted; i++) {
      std::vector<uint8_t> message = numbered(1000, 7), expected = framed(message), heard;
      const unsigned before = sender.packets();
      void* request = nullptr;
      CHECK(sender.send(message, &request));
      CHECK(spin(kLimitNs, [&] {
        const std::vector<uint8_t> more = sender.read();
        heard.insert(heard.end(), more.begin(), more.end());
        return heard.size() >= expected.size();
      }));
      CHECK(heard == expected);
      fewest = std::min(fewest, sender.packets() - before);
    }
    CHECK_EQ(fewest, wanted);
  }
}

/// Nor for a receiver that reads nothing: of a message's beginning, what fits into the kernel is sent, and sent once.
TEST(net_stream_of_a_reader_that_stalls) {
  constexpr int kStalls = 8;
  const Watchdog watchdog;
  for (const bool lane : {false, true}) {
    Sender sender(lane);
    std::vector<uint8_t> expected, heard;
    const auto hear = [&] {
      const std::vector<uint8_t> more = sender.read();
      heard.insert(heard.end(), more.begin(), more.end());
    };
    std::vector<std::unique_ptr<std::vector<uint8_t>>> messages;
    for (int stalls = 0; stalls < kStalls;) {
      const size_t bytes = messages.size() % 8 == 0 ? 1000 + 37 * static_cast<size_t>(stalls) : kInline;
      messages.push_back(std::make_unique<std::vector<uint8_t>>(numbered(bytes, static_cast<uint8_t>(stalls))));
      const std::vector<uint8_t> wire = framed(*messages.back());
      expected.insert(expected.end(), wire.begin(), wire.end());
      void* request = nullptr;
      if (sender.send(*messages.back(), &request)) continue;
      stalls++;
      CHECK(spin(kLimitNs, [&] {
        hear();
        return Sender::test(request, 0) != 0;
      }));
    }
    CHECK(spin(kLimitNs, [&] {
      hear();
      return heard.size() >= expected.size();
    }));
    CHECK(heard == expected);
  }
}

/// However little of a message the kernel takes at a time.
TEST(net_stream_of_a_lane_whose_reader_takes_little) {
  const Watchdog watchdog;
  Sender sender(true);
  std::vector<uint8_t> message = numbered(size_t{4} << 20, 11), expected = framed(message), heard;
  message.back() = expected.back() = 1;
  void* request = nullptr;
  CHECK(!sender.send(message, &request));
  CHECK(spin(kLimitNs, [&] {
    const std::vector<uint8_t> more = sender.read();
    heard.insert(heard.end(), more.begin(), more.end());
    return Sender::test(request, 0) != 0;
  }));
  CHECK(spin(kLimitNs, [&] {
    const std::vector<uint8_t> more = sender.read();
    heard.insert(heard.end(), more.begin(), more.end());
    return heard.size() >= expected.size();
  }));
  CHECK(heard == expected);
}

TEST(net_stream_of_a_reader_that_leaves) {
  const Watchdog watchdog;
  for (const bool lane : {false, true}) {
    for (const size_t bytes : {kInline, kLarge}) {
      Sender sender(lane);
      std::vector<uint8_t> message = numbered(bytes, 9);
      void* request = nullptr;
      while (sender.send(message, &request)) continue;
      sender.leave();
      CHECK_EQ(Sender::test(request, kLimitNs), -1);
    }
  }
}
