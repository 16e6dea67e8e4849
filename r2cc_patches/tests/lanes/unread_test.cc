// How long somebody reads on a lane that is given up: all that lies there, and no longer.
#include <algorithm>
#include <functional>
#include <utility>

#include "check.h"
#include "lanes/unread.h"

using namespace r2cc;

namespace {

/// A socket with a peer that goes on sending.
struct Socket {
  int64_t waiting = 0;              // arrived and not read
  int64_t most = 0;                 // of one read
  std::function<int64_t()> arrive;  // between two calls
  int64_t read = 0;
  int reads = 0;

  bool more() {
    reads++;
    const int64_t taken = std::min(waiting, most);
    waiting -= taken;
    read += taken;
    if (arrive) waiting += arrive();
    return true;
  }
};

constexpr int64_t kLarge = 1 << 20;
constexpr int kMany = 100000;

/// Reads until whileUnread() has enough, or kMany times: only a call that never ends gets so far.
void readAll(Socket& socket) {
  static const InnerOps ops = [] {
    InnerOps o{};
    o.unread = [](void* comm) { return static_cast<const Socket*>(comm)->waiting; };
    return o;
  }();
  Lane lane(nullptr, 1, false, nullptr, 0, {nullptr, &ops}, nullptr);
  lane.comm = &socket;
  whileUnread(lane, [&] { return socket.more() && socket.reads < kMany; });
}

}  // namespace

TEST(net_unread_all_that_lies_there_is_read) {
  for (const int64_t most : {int64_t{1000}, int64_t{4096}, kLarge}) {
    Socket socket{kLarge, most, nullptr};
    readAll(socket);
    CHECK_EQ(socket.read, kLarge);
    CHECK(socket.reads <= kLarge / most + 1 + kIdleTries);
  }
}

TEST(net_unread_what_comes_meanwhile_hides_nothing) {
  for (const int64_t each : {int64_t{1}, int64_t{999}, int64_t{1500}}) {
    int64_t left = kLarge;
    Socket socket{kLarge, 1000, [&] { return std::exchange(left, std::max(int64_t{0}, left - each)) - left; }};
    readAll(socket);
    CHECK(socket.read >= kLarge);
    CHECK(socket.reads < kMany);
  }
}

/// A byte each time, every other time, or two and none: without an end.
TEST(net_unread_a_peer_that_goes_on_byte_by_byte_holds_nobody_up) {
  for (const int64_t there : {0, 1, 5}) {
    for (const int every : {1, 2, 3}) {
      Socket socket{there, kLarge, nullptr};
      socket.arrive = [&] { return socket.reads % every == 0 ? int64_t{1} : int64_t{0}; };
      readAll(socket);
      CHECK(socket.read >= there);
      CHECK(socket.reads <= 20);
    }
  }
}
