// Who may become a lane of the IB transport: its listening socket, on loopback. No device is needed until somebody is
// in.
#include <algorithm>
#include <vector>

#include "check.h"
#include "clock.h"
#include "common.h"  // of the fork's net_ib
#include "net_caller.h"
#include "net_ib_ops.h"

using namespace r2cc;

namespace {

constexpr uint64_t kSecret = 0x1122334455667788;
constexpr size_t kMagicAt = 32;  // in a handle: behind a socket address, aligned

uint64_t told(const InnerHandle& handle) {
  uint64_t magic = 1;
  memcpy(&magic, handle.data() + kMagicAt, sizeof(magic));
  return magic;
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
  InnerHandle handle{};

 private:
  void* listener_ = nullptr;
};

}  // namespace

TEST(net_ib_only_the_secret_opens_a_lane) {
  Listening door;
  CHECK_EQ(told(door.handle), 0u);
  const std::vector<uint8_t> devices(sizeof(ncclNetVDeviceProps_t), 0);
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
