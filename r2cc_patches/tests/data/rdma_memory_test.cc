// Memory that one NIC takes and another does not.
#include "check.h"
#include "rig/faults.h"
#include "rig/finish.h"
#include "rig/rig.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {
constexpr int64_t kLimitNs = msToNs(15000);
constexpr uint64_t kHalf = 200;
}  // namespace

// NICs differ: GPUDirect or DMA-BUF on one alone, a device in trouble, no room.
TEST(net_rdma_memory_that_a_nic_in_reserve_refuses_is_taken) {
  for (const int host : {0, 1}) {
    RigOptions options;
    options.needsAck = false;
    options.anyOrder = options.drains = true;
    options.rails = 3;
    Rig rig(options);
    const Stream& s = rig.stream(0, 1, 0, 2 * kHalf);
    s.sender->limit = s.receiver->limit = kHalf;
    rig.start();
    CHECK(Rig::within(kLimitNs, [&] { return rig.delivered() == kHalf; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // a lane stands by on another rail
    std::vector<uint8_t> buffer(1 << 20);
    void* handle = nullptr;
    void* comm = host == 0 ? s.sender->comm() : s.receiver->comm();
    for (const int dev : {1, 2}) {
      rig.fabric.refuseMemory(dev);
      CHECK_EQ(rig.engine(host).regMr(comm, buffer.data(), buffer.size(), NCCL_PTR_HOST, 0, -1, &handle), ncclSuccess);
      CHECK_EQ(rig.engine(host).deregMr(comm, handle), ncclSuccess);
    }
    rig.fabric.refuseMemory(0);
    CHECK(rig.engine(host).regMr(comm, buffer.data(), buffer.size(), NCCL_PTR_HOST, 0, -1, &handle) != ncclSuccess);
    rig.fabric.refuseMemory(-1);
    s.sender->limit = s.receiver->limit = UINT64_MAX;
    finishClean(rig, kLimitNs);
  }
}
