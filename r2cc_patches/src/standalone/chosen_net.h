// The net behind every table of the plugin. Like NCCL itself it is InfiniBand where there is some and sockets
// elsewhere, wrapped as R2CC_MODE says; before them R2CC_INNER_PLUGIN's.
#pragma once

#include "net/in_path.h"
#include "net/r2cc_net.h"
#include "standalone/net_tables.h"

namespace r2cc::plugin {

/// Null before the first init.
ncclNet_t* chosenNet();

/// The first call chooses. `table`: through which of ours NCCL came. `*ctx` is never null, but after a failure.
ncclResult_t initChosen(int table, void** ctx, uint64_t commId, const Config* config, Log log, Prof profiler);
/// The chosen net's context, which may be null, for one of initChosen(): false for any other, and for one that has
/// ended.
bool innerContext(void* ctx, void** inner);
/// Does nothing for what initChosen() did not give: NCCL 2.28 to 2.29.3 calls finalize after a failed init, too.
ncclResult_t finalizeChosen(void* ctx);

/// Null says nothing.
inline int trafficClassOf(const Config* config) {
  return config == nullptr ? NCCL_NET_TRAFFIC_CLASS_UNDEF : config->trafficClass;
}

// v8 to v10: NCCL's init has no context, and no call says that a communicator has ended. The process then has one
// context for each traffic class, made when it is first used, and kept.

/// Init of such a table. NCCL may call it again.
ncclResult_t initOnce(int table, Log log, Prof profiler);
/// Its context may be null: sockets have none.
ncclResult_t contextOf(int trafficClass, void** ctx);
/// listen of such a table: a traffic class is of those who connect.
ncclResult_t listenOnce(int dev, void* handle, void** listenComm);
ncclResult_t connectOnce(int trafficClass, int dev, void* handle, void** sendComm);
/// connect of any table, with the chosen net's context. Where that net is not wrapped, and the peer's is, both ends
/// fail.
ncclResult_t connectChosen(void* inner, int dev, void* handle, void** sendComm);

/// The same call on the chosen net, whatever its arguments.
template <auto Member, class Type>
struct Forward;
template <auto Member, class... Args>
struct Forward<Member, ncclResult_t (*ncclNet_t::*)(Args...)> {
  static ncclResult_t call(Args... args) {
    if (chosenNet() == nullptr) return ncclInvalidUsage;  // before init
    const auto function = chosenNet()->*Member;
    return function == nullptr ? ncclInternalError : function(args...);
  }
};
template <auto Member>
constexpr auto forward = Forward<Member, decltype(Member)>::call;

/// No network here gives the device a handle.
inline ncclResult_t accept(void* listenComm, void** recvComm, DeviceHandle**) {
  return forward<&ncclNet_t::accept>(listenComm, recvComm, nullptr);
}

constexpr Memory kMemory{forward<&ncclNet_t::regMr>, forward<&ncclNet_t::regMrDmaBuf>, forward<&ncclNet_t::deregMr>};
constexpr Ends kEnds{forward<&ncclNet_t::iflush>,
                     forward<&ncclNet_t::test>,
                     forward<&ncclNet_t::closeSend>,
                     forward<&ncclNet_t::closeRecv>,
                     forward<&ncclNet_t::closeListen>,
                     nullptr,   // getDeviceMr: nothing here is driven from the device,
                     nullptr};  // so irecvConsumed is not either

inline void fill(Identity& to, Port& port, const ncclNetProperties_t& from) {
  to = {from.name, from.pciPath, from.guid, from.ptrSupport, from.regIsGlobal};
  port = {from.speed, from.port, from.latency, from.maxComms, from.maxRecvs, from.netDeviceType, from.netDeviceVersion};
}
template <int Most>
void fill(Parts<Most>& to, const ncclNetProperties_t& from) {
  for (to.ndevs = 0; to.ndevs < from.vProps.ndevs && to.ndevs < Most; to.ndevs++) {
    to.devs[to.ndevs] = from.vProps.devs[to.ndevs];
  }
}
/// What all tables from v9 on have.
template <class Properties>
void fill(Properties& to, const ncclNetProperties_t& from) {
  fill(to.identity, to.port, from);
  fill(to.parts, from);
  to.forceFlush = from.forceFlush;
  to.mostBytes = {from.maxP2pBytes, from.maxCollBytes};
}

/// getProperties of any table: `Fill` writes what that has.
template <class Properties, void Fill(Properties&, const ncclNetProperties_t&)>
ncclResult_t properties(int dev, Properties* out) {
  ncclNetProperties_t from{};
  const ncclResult_t result = forward<&ncclNet_t::getProperties>(dev, &from);
  if (result == ncclSuccess) Fill(*out, from);
  return result;
}

}  // namespace r2cc::plugin
