// What the fork's socket transport tells and offers beyond its table: samples, hidden devices. Over real sockets.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "check.h"
#include "inner/tcp_sample.h"
#include "nic/tcp_tune.h"
#include "rig/socket_pair.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

constexpr int64_t kJiffies = msToNs(20);  // the kernel counts busy time in ticks of up to 10 ms, at both ends of it

constexpr size_t kMiB = 1 << 20;

LaneSample sampleOf(const CommPair& pair) {
  LaneSample out;
  CHECK(pair.net.ops->sample(pair.sender, &out));
  return out;
}

void sleepMs(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// NOLINTNEXTLINE(bugprone-command-processor): commands of our own making
bool shell(const std::string& command) { return system((command + " 2>/dev/null").c_str()) == 0; }

void skip(const std::string& why) { std::fprintf(stderr, "skipped: %s\n", why.c_str()); }

/// An interface, made for the occasion, that the transport does not show.
bool addVeth(int number) {
  const std::string name = "hid" + std::to_string(number);
  return shell("ip link add " + name + " type veth peer name " + name + "p") && shell("ip link set " + name + " up") &&
         shell("ip link set " + name + "p up") &&
         shell("ip addr add 10.99." + std::to_string(number) + ".1/24 dev " + name) &&
         shell("ip addr add 10.98." + std::to_string(number) + ".1/24 dev " + name + "p");
}

std::string hiddenDevices() {
  const auto hidden = r2cc::fake::socketNet().ops->hiddenDevice;
  int shown = 0;
  if (socketNet().net == nullptr || socketNet().net->devices(&shown) != ncclSuccess || shown != 1) return "no lo";
  if (!addVeth(1)) return "no veth";
  if (!shell("ip link add bare type veth peer name barep") || !shell("ip link set bare up")) return "no veth";
  if (hidden("nosuch") != -1 || hidden("") != -1 || hidden("a-name-that-is-far-too-long") != -1) return "made up";
  if (!shell("ip link set barep up && sysctl -qw net.ipv6.conf.bare.disable_ipv6=1")) return "no sysctl";
  if (hidden("bare") != -1) return "a device without an address";
  if (hidden("lo") != 0) return "the shown device is another";
  const int dev = hidden("hid1");
  if (dev != 1 || hidden("hid1") != dev) return "not the same device twice";
  socketNet().net->devices(&shown);
  if (shown != 1) return "the hidden device is shown";
  std::vector<uint8_t> from(kMiB, 5), to(kMiB, 0);
  {
    CommPair pair(socketNet(), nullptr, dev, dev);
    if (!pair.connected() || !pair.pass(from.data(), to.data(), kMiB) || to != from) return "no message over it";
  }
  void* listener = nullptr;
  InnerHandle handle{};
  if (socketNet().net->listen(nullptr, dev + 1, handle.data(), &listener) == ncclSuccess) return "one too many";
  for (int next = dev + 1; next <= 16; next++) {  // the transport's table holds 16
    const std::string name = "hid" + std::to_string(next);
    if (!addVeth(next)) return "no veth";
    if (hidden(name.c_str()) != (next < 16 ? next : -1)) return name + " is " + std::to_string(hidden(name.c_str()));
  }
  return hidden("hid1") == dev ? "" : "full, and the first is lost";
}

constexpr int kRtoMinUs = 45;  // TCP_RTO_MIN_US, which C libraries do not name yet
constexpr int kBufLock = 72;   // SO_BUF_LOCK

/// The least retransmission timeouts of our TCP sockets, in us; those of a kernel that has no such option are missing.
std::vector<int> leastTimeouts() {
  std::vector<int> out;
  for (int fd = 0; fd < 256; fd++) {
    int us = 0;
    socklen_t size = sizeof(us);
    if (getsockopt(fd, IPPROTO_TCP, kRtoMinUs, &us, &size) == 0) out.push_back(us);
  }
  return out;
}

/// Big messages split over four sockets on two threads.
std::string manySockets() {
  setenv("NCCL_SOCKET_NTHREADS", "2", 1);
  setenv("NCCL_NSOCKS_PERTHREAD", "2", 1);
  CommPair pair(socketNet(), nullptr, 0, 0);
  if (!pair.connected()) return "not connected";
  std::vector<uint8_t> from(8 * kMiB, 5), to(8 * kMiB, 0);
  const int64_t start = nowNs();
  for (int i = 0; i < 8; i++) {
    if (!pair.pass(from.data(), to.data(), from.size())) return "not passed";
  }
  LaneSample sample;
  const auto acknowledged = [&] { return pair.net.ops->sample(pair.sender, &sample) && sample.bytes >= 64 * kMiB; };
  if (!spin(msToNs(5000), acknowledged)) return "bytes: " + std::to_string(sample.bytes);
  if (sample.busyNs <= 0 || sample.busyNs > nowNs() - start + kJiffies) return "busy: " + std::to_string(sample.busyNs);
  pair.net.ops->fence(pair.sender);
  return pair.net.ops->sample(pair.sender, &sample) ? "" : "no sample of a fenced comm";
}

}  // namespace

TEST(net_socket_sample_counts_what_was_confirmed) {
  CommPair pair(socketNet(), nullptr, 0, 0);
  CHECK(pair.connected());
  std::vector<uint8_t> from(4 * kMiB, 5), to(4 * kMiB, 0);
  const LaneSample before = sampleOf(pair);
  const int64_t start = nowNs();
  uint64_t passed = 0;
  while (passed < 32 * kMiB || nowNs() - start < 6 * kJiffies) {  // long enough for the kernel's clock to see it
    CHECK(pair.pass(from.data(), to.data(), from.size()));
    passed += from.size();
  }
  CHECK(spin(msToNs(5000), [&] { return sampleOf(pair).bytes >= before.bytes + passed; }));
  CHECK(sampleOf(pair).bytes < before.bytes + passed + kMiB);
  const LaneSample sample = sampleOf(pair);
  CHECK(sample.busyNs > before.busyNs);
  CHECK(sample.busyNs - before.busyNs <= nowNs() - start + kJiffies);
  CHECK(sample.quietNs <= nowNs() - start + kJiffies);
  sleepMs(100);  // nothing to send: not busy
  CHECK(sampleOf(pair).quietNs >= msToNs(100) - kJiffies);
  CHECK(sampleOf(pair).busyNs - sample.busyNs < msToNs(50));
}

TEST(net_socket_sample_leaves_out_a_slow_reader) {
  CommPair pair(socketNet(), nullptr, 0, 0);
  CHECK(pair.connected());
  std::vector<uint8_t> from(64 * kMiB, 5), to(64 * kMiB, 0);
  void* send = nullptr;
  CHECK_EQ(pair.net.net->isend(pair.sender, from.data(), from.size(), 0, nullptr, nullptr, &send), ncclSuccess);
  const int64_t start = nowNs();
  int done = 0;
  bool fine = true;
  while (nowNs() - start < msToNs(400)) fine &= pair.net.net->test(send, &done, nullptr) == ncclSuccess;
  CHECK(fine);
  const LaneSample stuck = sampleOf(pair);
  CHECK(!done && stuck.bytes >= 16384);
  CHECK(stuck.busyNs < msToNs(200));
  void* recv = nullptr;
  void* data = to.data();
  size_t size = to.size();
  int tag = 0;
  void* mr = nullptr;
  CHECK_EQ(pair.net.net->irecv(pair.receiver, 1, &data, &size, &tag, &mr, nullptr, &recv), ncclSuccess);
  int both[2] = {};
  CHECK(spin(msToNs(20000), [&] {
    if (!both[0]) pair.net.net->test(send, &both[0], nullptr);
    if (!both[1]) pair.net.net->test(recv, &both[1], nullptr);
    return both[0] && both[1];
  }));
  CHECK(to == from);
}

TEST(net_socket_sample_of_many_sockets) {
  std::string why;
  CHECK_EQ(inOwnNamespace(manySockets, why), "");
  if (!why.empty()) skip(why);
  LaneSample lane{100, 5000, 30};
  addSocket(lane, {50, 4000, 20});
  CHECK(lane.bytes == 150 && lane.busyNs == 5000 && lane.quietNs == 20);
  addSocket(lane, {0, 6000, 40});
  CHECK(lane.busyNs == 6000 && lane.quietNs == 20);
}

TEST(net_socket_lanes_resend_soon) {
  CommPair pair(socketNet(), nullptr, 0, 0);
  CHECK(pair.connected());
  const auto quick = [] {
    const std::vector<int> all = leastTimeouts();
    return std::count_if(all.begin(), all.end(), [](int us) { return us <= 20000; });
  };
  if (leastTimeouts().empty()) return skip("this kernel's sockets have no timeout of their own");
  const auto before = quick();
  pair.net.ops->tune(pair.sender);
  const auto sender = quick();
  CHECK(sender > before);
  pair.net.ops->tune(pair.receiver);
  CHECK(quick() > sender);
  std::vector<uint8_t> from(kMiB, 5), to(kMiB, 0);
  CHECK(pair.pass(from.data(), to.data(), kMiB) && to == from);
  tcpTune(-1);
  tcpTune(STDERR_FILENO);  // no TCP socket: nothing happens
}

TEST(net_socket_lanes_have_room_for_a_chunk) {
  const auto option = [](int fd, int name) {
    int value = -1;
    socklen_t size = sizeof(value);
    return getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
  };
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(fd >= 0);
  int least = 0, usual = 0, most = 0;
  std::ifstream("/proc/sys/net/ipv4/tcp_rmem") >> least >> usual >> most;
  const int room = std::min(1 << 20, most / 2);  // the kernel gives half of its most at once
  const int before = option(fd, SO_RCVBUF);
  tcpTune(fd);
  CHECK(option(fd, SO_RCVBUF) >= std::max(before, room) && room > 0);
  CHECK_EQ(option(fd, SO_RCVLOWAT), 1);  // NCCL polls for the first byte as before
  CHECK(option(fd, kBufLock) <= 0);      // and the kernel goes on adapting (-1: older ones do not say)
  close(fd);
}

TEST(net_socket_sample_of_no_socket) {
  LaneSample out;
  int ends[2];
  CHECK_EQ(pipe(ends), 0);
  CHECK(!tcpSample(-1, &out) && !tcpSample(ends[0], &out));
  close(ends[0]);
  close(ends[1]);
}

TEST(net_socket_hidden_devices) {
  std::string why;
  CHECK_EQ(inOwnNamespace(hiddenDevices, why), "");
  if (!why.empty()) skip(why);
}

/// What "unconfirmed: none" promises: the sender's reset, which a fence sends, takes nothing of it away, though nobody
/// had asked for it.
TEST(net_socket_what_the_kernel_has_outlives_a_reset) {
  constexpr size_t kMessages = 3, kBytes = 10000;  // all of it fits into a socket
  CommPair pair(socketNet(), nullptr, 0, 0);
  const ncclNet_t& net = *pair.net.net;
  CHECK(pair.connected());
  CHECK_EQ(pair.net.ops->unconfirmed(pair.receiver), 0);
  std::vector<uint8_t> from(kBytes);
  for (size_t i = 0; i < kMessages; i++) {
    std::fill(from.begin(), from.end(), static_cast<uint8_t>(i + 1));
    void* request = nullptr;
    int done = 0;
    CHECK(spin(msToNs(5000), [&] {
      if (request == nullptr) CHECK_EQ(net.isend(pair.sender, from.data(), kBytes, 0, nullptr, nullptr, &request), 0);
      if (request != nullptr) CHECK_EQ(net.test(request, &done, nullptr), 0);
      return done != 0;
    }));
  }
  CHECK(spin(msToNs(5000), [&] { return pair.net.ops->unconfirmed(pair.sender) == 0; }));
  pair.net.ops->fence(pair.sender);
  sleepMs(50);  // the reset is there
  for (size_t i = 0; i < kMessages; i++) {
    std::vector<uint8_t> to(kBytes);
    void *data = to.data(), *mr = nullptr, *profiler = nullptr, *request = nullptr;
    size_t room = kBytes;
    int tag = -1, done = 0, size = 0;
    CHECK_EQ(net.irecv(pair.receiver, 1, &data, &room, &tag, &mr, &profiler, &request), 0);
    CHECK(spin(msToNs(5000), [&] { return net.test(request, &done, &size) != ncclSuccess || done != 0; }));
    CHECK(done != 0 && size == static_cast<int>(kBytes));
    CHECK(std::all_of(to.begin(), to.end(), [&](uint8_t b) { return b == i + 1; }));
  }
}

/// And the sender's kernel says that it is over, though nothing is sent.
TEST(net_socket_says_that_the_other_end_is_gone) {
  CommPair pair(socketNet(), nullptr, 0, 0);
  CHECK(pair.connected());
  CHECK(!pair.net.ops->ended(pair.sender) && !pair.net.ops->ended(pair.receiver));
  pair.net.ops->fence(pair.receiver);
  CHECK(spin(msToNs(5000), [&] { return pair.net.ops->ended(pair.sender); }));
}

/// And what it does not have is counted: a receiver that reads nothing fills it.
TEST(net_socket_says_what_the_other_kernel_has_not) {
  CommPair pair(socketNet(), nullptr, 0, 0);
  CHECK(pair.connected());
  std::vector<uint8_t> from(64 * kMiB);
  void* request = nullptr;
  int done = 0;
  CHECK(spin(msToNs(5000), [&] {
    if (request == nullptr)
      (void)pair.net.net->isend(pair.sender, from.data(), from.size(), 0, nullptr, nullptr, &request);
    if (request != nullptr) CHECK_EQ(pair.net.net->test(request, &done, nullptr), 0);
    return pair.net.ops->unconfirmed(pair.sender) > 0;
  }));
  sleepMs(50);
  CHECK(done == 0 && pair.net.ops->unconfirmed(pair.sender) > 0);
}
