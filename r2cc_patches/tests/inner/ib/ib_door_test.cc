// Who may become a lane of the IB transport: its listening socket, on loopback. No device is needed until somebody is
// in.
#include <algorithm>
#include <functional>
#include <vector>

#include "base/clock.h"
#include "check.h"
#include "common.h"   // of the fork's net_ib
#include "connect.h"  // of it, too
#include "inner/net_ib_ops.h"
#include "rig/caller.h"

extern ncclNet_t ncclNetIb;

using namespace r2cc;

namespace {

constexpr uint64_t kSecret = 0x1122334455667788;
constexpr size_t kMagicAt = 32;  // in a handle: behind a socket address, aligned

uint64_t told(const InnerHandle& handle) {
  uint64_t magic = 1;
  memcpy(&magic, handle.data() + kMagicAt, sizeof(magic));
  return magic;
}

using Devices = ncclNetVDeviceProps_t;

/// A device that is there while this lives. Nothing is asked of it.
struct OneDevice {
  OneDevice() : before(ncclNMergedIbDevs) {
    ncclNMergedIbDevs = 1;
    ncclIbMergedDevs[0].vProps = {1, {0}};
  }
  ~OneDevice() { ncclNMergedIbDevs = before; }
  OneDevice(const OneDevice&) = delete;
  OneDevice& operator=(const OneDevice&) = delete;
  const int before;
};

template <class T>
std::vector<uint8_t> bytesOf(const T& value) {
  const auto* at = reinterpret_cast<const uint8_t*>(&value);
  return {at, at + sizeof(value)};
}

/// What one end says first: its devices, and from 2.30 on a word about queues.
std::vector<uint8_t> hello(const Devices& devices) {
  std::vector<uint8_t> bytes = bytesOf(devices);
#if NCCL_VERSION_CODE >= R2CC_IB_RECOVERS
  bytes.push_back(0);
#endif
  return bytes;
}

/// What one end says of its queue pairs.
ncclIbConnectionMetadata metadata(int devices, int device, size_t pair) {
  ncclIbConnectionMetadata meta;
  memset(&meta, 0, sizeof(meta));
  meta.ndevs = devices;
  meta.qpInfo[pair].devIndex = device;
  return meta;
}

/// Ends of a connection that say what no device has: {devices, devices again, a queue pair's device}.
constexpr int kWrong[][3] = {{0, 0, 0},         {-1, 0, 0}, {NCCL_IB_MAX_DEVS_PER_NIC + 1, 0, 0},
                             {INT32_MAX, 0, 0}, {1, -1, 0}, {1, NCCL_IB_MAX_DEVS_PER_NIC + 1, 0},
                             {1, INT32_MIN, 0}, {1, 1, 1},  {1, 1, -1},
                             {1, 2, 2},         {1, 0, 0},  {1, 1, INT32_MAX}};

/// How a call that goes on ends.
ncclResult_t endOf(const std::function<ncclResult_t()>& call) {
  const int64_t until = nowNs() + msToNs(5000);
  ncclResult_t result = ncclSuccess;
  while (result == ncclSuccess && nowNs() < until) result = call();
  return result;
}

class Listening {
 public:
  Listening() {
    memset(&ncclIbIfAddr, 0, sizeof(ncclIbIfAddr));
    ncclIbIfAddr.sin.sin_family = AF_INET;
    ncclIbIfAddr.sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK_EQ(r2ccNetIb.listen(nullptr, 0, handle.data(), &listener_), ncclSuccess);
    r2ccNetIbOps.lockListen(listener_, handle.data(), kSecret);
  }
  ~Listening() { r2ccNetIbOps.cancelListen(listener_); }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;
  /// Whether somebody is let in within the time. He says which device he has, and the fork here has none: an error.
  bool opens(int ms) {
    const int64_t until = nowNs() + msToNs(ms);
    void* comm = nullptr;
    ncclResult_t result = ncclSuccess;
    do {
      result = r2ccNetIb.accept(listener_, &comm, nullptr);
    } while (result == ncclSuccess && nowNs() < until);
    return result == ncclInternalError;
  }
  ncclResult_t accept() {
    void* comm = nullptr;
    return ncclNetIb.accept(listener_, &comm, nullptr);  // the fork's own: no port is asked
  }
  InnerHandle handle{};

 private:
  void* listener_ = nullptr;
};

}  // namespace

TEST(net_ib_only_the_secret_opens_a_lane) {
  Listening door;
  CHECK_EQ(told(door.handle), 0u);
  Devices props{};
  props.ndevs = 1;
  const std::vector<uint8_t> devices = hello(props);
  const Caller silent(door.handle);
  CHECK(silent.connected);
  for (const uint64_t magic : {kPublicMagic, uint64_t{0}, kSecret ^ 1, kSecret ^ (uint64_t{1} << 63)}) {
    const Caller stranger(door.handle);
    stranger.greet(magic, ncclSocketTypeNetIb, devices);
    CHECK(!door.opens(20));
    CHECK(stranger.refused());
  }
  const Caller genuine(door.handle);
  genuine.greet(kSecret, ncclSocketTypeNetIb, devices);
  CHECK(door.opens(2000));
}

TEST(net_ib_handles_are_checked) {
  const Listening door;
  InnerHandle mine = door.handle;
  std::fill(mine.begin() + kMagicAt + sizeof(uint64_t), mine.end(), uint8_t{0x41});  // pointers that somebody made up
  CHECK(r2ccNetIbOps.unlockHandle(mine.data(), kSecret));
  CHECK_EQ(told(mine), kSecret);
  r2ccNetIbOps.cancelConnect(mine.data());  // nothing of it is followed
  mine[0] = 0x7f;                           // no family that has addresses
  CHECK(!r2ccNetIbOps.unlockHandle(mine.data(), kSecret));
}

/// Whoever has the secret may be broken all the same: nothing that it says becomes the index of an array.
TEST(net_ib_accept_believes_no_number_of_devices) {
  const OneDevice device;
  for (const auto& [devices, again, index] : kWrong) {
    Listening door;
    const Caller broken(door.handle);
    Devices props{};
    props.ndevs = devices;
    broken.greet(kSecret, ncclSocketTypeNetIb, hello(props));
    broken.say(bytesOf(metadata(again, index, 0)));
    CHECK_EQ(endOf([&] { return door.accept(); }), ncclRemoteError);
    if (devices != 1) CHECK(broken.refused());  // else it was told ours first
  }
}

TEST(net_ib_connect_believes_no_number_of_devices) {
  const OneDevice device;
  for (const auto& [devices, again, index] : kWrong) {
    if (devices == 1) continue;  // what comes later needs queue pairs of our own: below
    const Listening door;        // for a handle
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(here);
    CHECK_EQ(bind(listener, reinterpret_cast<sockaddr*>(&here), size), 0);
    CHECK_EQ(listen(listener, 1), 0);
    CHECK_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&here), &size), 0);
    InnerHandle handle = door.handle;
    memcpy(handle.data(), &here, sizeof(here));
    CHECK(r2ccNetIbOps.unlockHandle(handle.data(), kSecret));
    void* comm = nullptr;
    int peer = -1;
    CHECK_EQ(endOf([&] {
               if (peer < 0) peer = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
               Devices props{};
               props.ndevs = devices;
               const std::vector<uint8_t> said = hello(props);
               if (peer >= 0) (void)send(peer, said.data(), said.size(), MSG_NOSIGNAL);
               return ncclNetIb.connect(nullptr, 0, handle.data(), &comm, nullptr);
             }),
             ncclRemoteError);
    close(peer), close(listener);
    r2ccNetIbOps.cancelConnect(handle.data());
  }
}

/// Another user of the library (NCCL's GIN is one) must not be told that it is open.
TEST(net_ib_an_init_that_failed_leaves_nothing_behind) {
  ncclNetCommConfig_t config{};
  void* ctx = nullptr;
  const auto init = [&] { return ncclNetIb.init(&ctx, 0, &config, nullptr, nullptr); };
  const ncclResult_t first = init();
  if (first == ncclSuccess) return CHECK_EQ(ncclNetIb.finalize(ctx), ncclSuccess);  // there is a library here
  for (int i = 0; i < 3; i++) CHECK_EQ(init(), first);
}
