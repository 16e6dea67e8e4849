// The slots of devices (inner/net_ib_reopen.inc) that a lane is made on, over verbs that make whatever is asked for:
// who uses one, whether it still is the device's, and what the port is by then.
#include <functional>

#include "base/clock.h"
#include "check.h"
#include "common.h"   // of the fork's net_ib
#include "connect.h"  // of it, too
#include "ibvsymbols.h"
#include "inner/net_ib_ops.h"
#include "rig/caller.h"

extern ncclIbvSymbols ibvSymbols;  // of the fork's ibvwrap.cc

using namespace r2cc;

namespace {

constexpr uint64_t kSecret = 0x1122334455667788;
constexpr int kOld = 30, kNew = 31;  // of 32

/// What there is of each: all the same one.
struct Made {
  ibv_device device;
  ibv_context context;
  ibv_pd pd;
  ibv_cq cq;
  ibv_qp qp;
  ibv_mr mr;
};
Made& made() {
  static Made& one = *new Made;  // never destroyed, as the fork's table refers to it
  return one;
}
int domains = 0;
bool makesDomains = true;
ibv_port_attr port;    // what the verbs say that it is now
ibv_qp_attr receives;  // what the last queue pair was told when it became ready to receive
constexpr uint16_t kPeerLid = 42;

ibv_pd* allocPd(ibv_context*) {
  if (!makesDomains) return errno = EIO, nullptr;
  domains++;
  return &made().pd;
}

/// A library that makes one device, in two slots of which the first is its own; while this lives.
class Devices {
 public:
  Devices() : symbols_(ibvSymbols), merged_(ncclNMergedIbDevs) {
    memset(&made(), 0, sizeof(Made));
    made().context.device = &made().device;
    made().context.ops.post_recv = [](ibv_qp*, ibv_recv_wr*, ibv_recv_wr**) { return 0; };
    made().qp.context = made().cq.context = made().pd.context = &made().context;
    makesDomains = true, domains = 0;
    memset(&port, 0, sizeof(port));
    memset(&receives, 0, sizeof(receives));
    port.link_layer = IBV_LINK_LAYER_INFINIBAND;
    port.lid = 11, port.active_mtu = IBV_MTU_4096;
    ibvSymbols.ibv_internal_alloc_pd = allocPd;
    ibvSymbols.ibv_internal_dealloc_pd = [](ibv_pd*) { return domains--, 0; };
    ibvSymbols.ibv_internal_create_cq = [](ibv_context*, int, void*, ibv_comp_channel*, int) { return &made().cq; };
    ibvSymbols.ibv_internal_destroy_cq = [](ibv_cq*) { return 0; };
    ibvSymbols.ibv_internal_create_qp = [](ibv_pd*, ibv_qp_init_attr*) { return &made().qp; };
    ibvSymbols.ibv_internal_modify_qp = [](ibv_qp*, ibv_qp_attr* attr, int) {
      if (attr->qp_state == IBV_QPS_RTR) receives = *attr;
      return 0;
    };
    ibvSymbols.ibv_internal_destroy_qp = [](ibv_qp*) { return 0; };
    ibvSymbols.ibv_internal_reg_mr = [](ibv_pd*, void*, size_t, int) { return &made().mr; };
    ibvSymbols.ibv_internal_reg_mr_iova2 = [](ibv_pd*, void*, size_t, uint64_t, unsigned) { return &made().mr; };
    ibvSymbols.ibv_internal_dereg_mr = [](ibv_mr*) { return 0; };
    ibvSymbols.ibv_internal_query_gid = [](ibv_context*, uint8_t, int, ibv_gid* gid) {
      return memset(gid, 0, sizeof(*gid)), 0;
    };
    ibvSymbols.ibv_internal_query_port = [](ibv_context*, uint8_t, ibv_port_attr* attr) { return *attr = port, 0; };
    ibvSymbols.ibv_internal_query_ece = [](ibv_qp*, ibv_ece*) { return 0; };
    ibvSymbols.ibv_internal_set_ece = [](ibv_qp*, ibv_ece*) { return 0; };
    ncclNMergedIbDevs = 1;
    ncclIbMergedDevs[0].vProps = {1, {kOld}};
    for (const int slot : {kOld, kNew}) {
      ncclIbDevs[slot].context = &made().context;
      ncclIbDevs[slot].portNum = 1;
      ncclIbDevs[slot].pdRefs = 0;
      ncclIbDevs[slot].pd = nullptr;
      ncclIbDevs[slot].dmaBufSupported = -1;
      ncclIbDevs[slot].portAttr = port;
    }
    memset(&ncclIbIfAddr, 0, sizeof(ncclIbIfAddr));
    ncclIbIfAddr.sin.sin_family = AF_INET;
    ncclIbIfAddr.sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK_EQ(r2ccNetIb.listen(nullptr, 0, handle_.data(), &listener_), ncclSuccess);
    r2ccNetIbOps.lockListen(listener_, handle_.data(), kSecret);
  }
  ~Devices() {
    r2ccNetIbOps.cancelListen(listener_);
    ibvSymbols = symbols_;
    ncclNMergedIbDevs = merged_;
  }
  Devices(const Devices&) = delete;
  Devices& operator=(const Devices&) = delete;

  /// Somebody connects and says what he has; `meanwhile` when the fork has read which slot the device is.
  ncclResult_t accept(const std::function<void()>& meanwhile) {
    const Caller caller(handle_);
    const ncclNetVDeviceProps_t props{1, {0}};
    const auto* at = reinterpret_cast<const uint8_t*>(&props);
    std::vector<uint8_t> hello(at, at + sizeof(props));
#if NCCL_VERSION_CODE >= R2CC_IB_RECOVERS
    hello.push_back(0);
#endif
    caller.greet(kSecret, ncclSocketTypeNetIb, hello);
    CHECK_EQ(acceptUntil([&] { return caller.told(); }), ncclSuccess);  // it says which devices it has
    CHECK(caller.told() && comm == nullptr);
    meanwhile();
    ncclIbConnectionMetadata meta;
    memset(&meta, 0, sizeof(meta));
    meta.ndevs = 1;
    meta.devs[0].link_layer = IBV_LINK_LAYER_INFINIBAND;
    meta.devs[0].lid = kPeerLid, meta.devs[0].mtu = IBV_MTU_4096;
    const int ready = 1;
    at = reinterpret_cast<const uint8_t*>(&meta);
    std::vector<uint8_t> rest(at, at + sizeof(meta));
    at = reinterpret_cast<const uint8_t*>(&ready);
    rest.insert(rest.end(), at, at + sizeof(ready));
    caller.say(rest);
    const ncclResult_t result = acceptUntil([&] { return comm != nullptr; });
    const std::vector<uint8_t> heard = caller.heard();
    const size_t first = hello.size();  // the answer to the hello is as long as it
    if (heard.size() >= first + sizeof(said)) memcpy(&said, heard.data() + first, sizeof(said));
    return result;
  }
  void* comm = nullptr;
  ncclIbConnectionMetadata said{};  // to who connects, of the lane

 private:
  ncclResult_t acceptUntil(const std::function<bool()>& done) {
    const int64_t until = nowNs() + msToNs(5000);
    ncclResult_t result = ncclSuccess;
    while (result == ncclSuccess && !done() && nowNs() < until) result = r2ccNetIb.accept(listener_, &comm, nullptr);
    return result;
  }
  const ncclIbvSymbols symbols_;
  const int merged_;
  InnerHandle handle_{};
  void* listener_ = nullptr;
};

}  // namespace

TEST(net_ib_a_lane_is_made_on_the_slot_of_its_device) {
  Devices devices;
  CHECK_EQ(devices.accept([] {}), ncclSuccess);
  CHECK(devices.comm != nullptr);
  CHECK_EQ(ncclIbDevs[kOld].pdRefs, 1);
  CHECK_EQ(domains, 1);
  r2ccIbDropHalfMade(static_cast<ncclIbNetCommBase*>(devices.comm));
  CHECK_EQ(ncclIbDevs[kOld].pdRefs, 0);
  CHECK_EQ(domains, 0);
}

/// Who waits for the other end has read its device's slot, which may be another's by then.
TEST(net_ib_no_lane_is_made_on_a_slot_that_its_device_left) {
  Devices devices;
  CHECK_EQ(devices.accept([] { ncclIbMergedDevs[0].vProps.devs[0] = kNew; }), ncclRemoteError);
  CHECK(devices.comm == nullptr);
  CHECK_EQ(ncclIbDevs[kOld].pdRefs, 0);
  CHECK_EQ(ncclIbDevs[kNew].pdRefs, 0);
  CHECK_EQ(domains, 0);
}

/// A slot that is counted as used is never free again, and the next lane would be made without a domain.
TEST(net_ib_a_domain_that_cannot_be_made_has_no_users) {
  Devices devices;
  CHECK(devices.accept([] { makesDomains = false; }) != ncclSuccess);
  CHECK_EQ(ncclIbDevs[kOld].pdRefs, 0);
  makesDomains = true;
  CHECK_EQ(devices.accept([] {}), ncclSuccess);
  CHECK_EQ(ncclIbDevs[kOld].pdRefs, 1);
  CHECK(ncclIbDevs[kOld].pd != nullptr);
  r2ccIbDropHalfMade(static_cast<ncclIbNetCommBase*>(devices.comm));
  CHECK_EQ(ncclIbDevs[kOld].pdRefs, 0);
}

/// The subnet manager gave the port another LID, or it came back with another MTU: who sends to it is told that.
TEST(net_ib_a_lane_is_made_with_what_its_port_is_by_now) {
  Devices devices;
  CHECK_EQ(devices.accept([] {}), ncclSuccess);
  CHECK_EQ(devices.said.devs[0].lid, 11U);
  CHECK_EQ(devices.said.devs[0].mtu, IBV_MTU_4096);
  r2ccIbDropHalfMade(static_cast<ncclIbNetCommBase*>(devices.comm));

  devices.comm = nullptr;
  port.lid = 77, port.active_mtu = IBV_MTU_2048;
  CHECK_EQ(devices.accept([] {}), ncclSuccess);
  CHECK_EQ(devices.said.devs[0].lid, 77U);
  CHECK_EQ(devices.said.devs[0].mtu, IBV_MTU_2048);
  CHECK_EQ(receives.ah_attr.dlid, kPeerLid);
  r2ccIbDropHalfMade(static_cast<ncclIbNetCommBase*>(devices.comm));
}
