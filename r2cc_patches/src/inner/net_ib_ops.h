// The private operations of the IB transport, in three parts that each sit where the structures they need are visible:
// net_ib_drain.inc ends p2p.cc, net_ib_cancel.inc is in connect.cc, net_ib_ops.inc ends common.cc (patch 0003).
#pragma once

#include "inner/inner_net.h"

/// From this version on upstream can bring queue pairs back that its own failover has left (its port recovery).
#define R2CC_IB_RECOVERS NCCL_VERSION(2, 30, 3)

/// The fork's IB net as the resilient net uses it: `ncclNetIb` with connect, accept and test of ours.
extern const ncclNet_t r2ccNetIb;
extern const r2cc::InnerOps r2ccNetIbOps;

struct ncclIbNetCommBase;
struct ncclIbDev;

// net_ib_drain.inc
void r2ccIbDrain(void* comm);
void r2ccIbFence(void* comm);
ncclResult_t r2ccIbTest(void* request, int* done, int* sizes);

// net_ib_cancel.inc
void r2ccIbCancelConnect(void* handle);
void r2ccIbCancelListen(void* listenComm);
ncclResult_t r2ccIbConnect(void* ctx, int dev, void* handle, void** sendComm, ncclNetDeviceHandle_t** device);
ncclResult_t r2ccIbAccept(void* listenComm, void** recvComm, ncclNetDeviceHandle_t** device);
void r2ccIbLock(void* listenComm, void* handle, uint64_t secret);
bool r2ccIbUnlock(void* handle, uint64_t secret);
/// Frees a comm in whatever stage of its making it is. Called by the fork, too, where its own connect or accept fails.
void r2ccIbDropHalfMade(ncclIbNetCommBase* base);

// net_ib_ops.inc
/// Reads again what the fork reads when it starts: LID, MTU and the length of the GID table may change under way.
void r2ccIbRefreshPort(ncclIbDev* dev);
/// A lane could not be made on it: what is known of its addresses may be out of date.
void r2ccIbDoubtPort(int dev);
/// Whether this thread makes a lane: the fork's modify_qp then does not try 34 times, for minutes, to find a neighbour
/// that does not answer. There are other paths.
bool r2ccIbImpatient();
void r2ccIbSetImpatient(bool impatient);
/// Whether a port that is down when NCCL starts becomes a device all the same (R2CC_IB_DOWN_PORTS=1).
bool r2ccIbKeepDownPort();
