// Anchors are lanes from a NIC to itself: who may be one end of them.
#include <array>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>

#include "base/clock.h"
#include "check.h"
#include "lanes/anchors.h"

using namespace r2cc;

namespace {

constexpr uint64_t kPublic = 4711;

/// What a transport was asked for. One for the process: its functions carry no context.
struct Seen {
  std::mutex mutex;
  std::vector<uint64_t> locked, connected;
  int cancelled = 0;
  bool handlesAreWrong = false;
};

Seen& seen() {
  static Seen& only = *new Seen;
  return only;
}

uint64_t magicIn(const void* handle) {
  uint64_t magic = 0;
  memcpy(&magic, handle, sizeof(magic));
  return magic;
}

void put(void* handle, uint64_t magic) { memcpy(handle, &magic, sizeof(magic)); }

ncclNet_t plainNet() {
  ncclNet_t net{};
  net.name = "plain";
  net.listen = [](void*, int, void* handle, void** comm) {
    put(handle, kPublic);
    *comm = handle;
    return ncclSuccess;
  };
  net.connect = [](void*, int, void* handle, void**, ncclNetDeviceHandle_t**) {
    const std::lock_guard<std::mutex> lock(seen().mutex);
    seen().connected.push_back(magicIn(handle));
    return ncclInternalError;  // that is all that is of interest here
  };
  net.accept = [](void*, void**, ncclNetDeviceHandle_t**) { return ncclInternalError; };
  return net;
}

InnerOps lockedOps() {
  InnerOps ops;
  ops.cancelConnect = [](void*) {};
  ops.cancelListen = [](void*) { seen().cancelled++; };
  ops.fence = [](void*) {};
  ops.lockListen = [](void*, void* handle, uint64_t secret) {
    put(handle, 0);
    seen().locked.push_back(secret);
  };
  ops.unlockHandle = [](void* handle, uint64_t secret) {
    put(handle, secret);
    return !seen().handlesAreWrong;
  };
  return ops;
}

std::vector<LocalNic> nicsOf(const ncclNet_t& net, const InnerOps& ops) {
  std::vector<LocalNic> nics(3);
  for (size_t i = 0; i < nics.size(); i++) nics[i].inner = {&net, &ops}, nics[i].dev = static_cast<int>(i);
  return nics;
}

}  // namespace

TEST(net_anchors_have_a_secret_each) {
  const ncclNet_t net = plainNet();
  const InnerOps ops = lockedOps();
  Anchors anchors;
  int ready = 0;
  {
    std::mutex engine;  // a device's connector has a thread of its own; the engine takes what they made one by one
    Connector connector([&](const LanePtr& lane, bool ok) {
      const std::lock_guard<std::mutex> lock(engine);
      ready += anchors.onMade(lane, ok) ? 1 : 0;
    });
    anchors.make(nicsOf(net, ops), nullptr, connector);
    const int64_t until = nowNs() + msToNs(5000);
    for (bool all = false; !all && nowNs() < until;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const std::lock_guard<std::mutex> lock(seen().mutex);
      all = seen().connected.size() == 3;
    }
    anchors.close(connector);
  }
  CHECK_EQ(ready, 0);
  const std::set<uint64_t> secrets(seen().locked.begin(), seen().locked.end());
  CHECK_EQ(secrets.size(), 3U);
  CHECK_EQ(secrets.count(0) + secrets.count(kPublic), 0U);
  CHECK(std::set<uint64_t>(seen().connected.begin(), seen().connected.end()) == secrets);
  CHECK_EQ(seen().cancelled, 3);
}

TEST(net_anchors_are_not_made_over_a_handle_that_is_none) {
  seen().connected.clear(), seen().locked.clear();
  seen().cancelled = 0;
  seen().handlesAreWrong = true;
  const ncclNet_t net = plainNet();
  const InnerOps ops = lockedOps();
  Anchors anchors;
  {
    Connector connector([](const LanePtr&, bool) {});
    anchors.make(nicsOf(net, ops), nullptr, connector);
    anchors.close(connector);
  }
  CHECK_EQ(seen().connected.size(), 0U);
  CHECK_EQ(seen().cancelled, 3);
  seen().handlesAreWrong = false;
}
