// What R2CC needs of a transport beyond ncclNet_t. Each fork's transport gets these from a thin patch.
#pragma once

#include <cstdint>

#include "nccl_net.h"
#include "tls/tls_key.h"

namespace r2cc {

/// What a comm has carried since it was made, as far as the transport can tell.
struct LaneSample {
  uint64_t bytes = 0;  // that the other end's kernel or NIC confirmed
  int64_t busyNs = 0;  // time during which the network, and not one of the two users, was what it waited for
  int64_t quietNs = INT64_MAX / 2;  // since the other end's kernel was last heard
  bool waits = true;                // something is on its way that the other end's kernel has not confirmed
  uint64_t resent = 0;              // packets sent again, as nobody confirmed them
};

/// Something a NIC's driver said on its own: carrier, a dead device, an address that came or went.
struct NicEvent {
  bool up = true;
  bool fatal = false;      // the device is lost until it is opened again
  const char* cause = "";  // static text, as in the journal: "port_err", "device_fatal", "gid_change", "port_active"
};

/// Private operations of an inner transport. None of them waits for the peer. Null where it says so.
struct InnerOps {
  /// Makes any later read or write of user memory by this comm impossible: returns once helper threads are gone and
  /// the sockets or queue pairs are dead. Requests of the comm must not be tested afterwards; the comm is still closed
  /// with closeSend or closeRecv.
  void (*fence)(void* comm) = nullptr;
  /// Frees what a connect() that never returned a comm has made so far; `handle` is the one given to connect().
  void (*cancelConnect)(void* handle) = nullptr;
  /// Frees what an accept() that never returned a comm has made so far, and closes the listen comm.
  void (*cancelListen)(void* listenComm) = nullptr;
  /// True when a completed isend only means "in a kernel buffer": the send is done when the receiver says so.
  bool needsAck = false;

  /// Called before fence(): stops the comm and processes every completion it will ever have, good ones behind a bad one
  /// included, so that test() then tells for each request whether its message was delivered whole. Null: test() alone
  /// finds them all.
  void (*drain)(void* comm) = nullptr;
  /// True when requests of one comm may be tested in any order (each has completions of its own); false when testing
  /// one reads what belongs to an older one.
  bool testsInAnyOrder = false;
  /// Fills `out`, beside whoever uses the comm; false when the transport cannot tell. Null: never can (the sender's own
  /// clock is used then).
  bool (*sample)(void* comm, LaneSample* out) = nullptr;
  /// The network interface behind a device, into name[size]; false when there is none. Null: the device's name is it.
  bool (*interfaceOf)(int dev, char* name, size_t size) = nullptr;
  /// A descriptor that becomes readable when the device's driver has something to say, or -1; the caller never closes
  /// it. An event that says that the device is lost is told again after this, as long as it is: who asked before may be
  /// gone. Null: netlink alone tells.
  int (*openEvents)(int dev) = nullptr;
  /// Takes one event; false when there is none left. Never blocks.
  bool (*readEvent)(int dev, NicEvent* out) = nullptr;
  /// After an event said that the device is lost: opens it anew for what is made from now on; what was made before is
  /// as lost as it was, and is closed as ever. True: it is back, `out` says whether it is up, and openEvents() gives
  /// another descriptor. False: not yet. It may take long, and is called beside anything else. Null: it never comes
  /// back.
  bool (*reopen)(int dev, NicEvent* out) = nullptr;
  /// A device of this transport on an interface that devices() does not show, for listen() and connect() alone; -1 when
  /// there is no such interface. Null: there are no others.
  int (*hiddenDevice)(const char* interface) = nullptr;

  /// Before devices() is first asked: where the user wants it, what has no link or no address becomes a device, too. A
  /// bit for each device that is such a one. Null: there are no others.
  uint64_t (*addDown)() = nullptr;
  /// The interface of a device may have another address than it had: what is made from now on uses it. -1: it has none,
  /// 0: all is as it was, 1: it is another. Null: the transport looks for itself.
  int (*readdress)(int dev) = nullptr;

  /// After listen(): only who knows `secret` gets in, and the handle does not tell it. Null: the transport's own way.
  void (*lockListen)(void* listenComm, void* handle, uint64_t secret) = nullptr;
  /// Before connect(): makes a handle that came from the network safe to follow, and adds the secret. False: no listen
  /// of this transport wrote it. Null: the handle is taken as it is.
  bool (*unlockHandle)(void* handle, uint64_t secret) = nullptr;
  /// After lockListen(): what comes in is encrypted with this key. Null, as encryptConnect() is: this transport cannot,
  /// and nothing is encrypted that goes over it.
  void (*encryptListen)(void* listenComm, const TlsKey& key) = nullptr;
  /// The same after unlockHandle().
  void (*encryptConnect)(void* handle, const TlsKey& key) = nullptr;
  /// As the net's accept(), but strangers can neither hold it up nor become the comm; `*refused` counts them. Null: the
  /// net's own.
  ncclResult_t (*accept)(void* listenComm, void** comm, uint64_t* refused) = nullptr;

  /// As the net's connect(), but from this device's NIC, without sleeping, and at most once. Null: the net's own.
  ncclResult_t (*connect)(int dev, void* handle, void** comm) = nullptr;

  /// Called once for each comm that a connect or accept has made. Null: nothing to set.
  void (*tune)(void* comm) = nullptr;
  /// After that: keeps the comm on its NIC in both directions, and tells whether it is there. Null: it always is.
  bool (*place)(void* comm, bool sends) = nullptr;

  /// Bytes of this comm's sends that the other end's kernel has not confirmed yet, whatever is still to be handed to
  /// ours left out. What it has confirmed reaches a process that goes on reading there, even after a reset. -1: cannot
  /// tell, which both ends of a comm say or neither. Null: never can.
  int64_t (*unconfirmed)(void* comm) = nullptr;
  /// Bytes that have arrived on this comm and were not read: a test() may take less than there is. 0 when it cannot
  /// tell. Null: never can.
  int64_t (*unread)(void* comm) = nullptr;
  /// True when the other end's kernel, or something on the way, has ended the comm: where all that is sent lies in our
  /// kernel, no call says so. Any thread, beside whoever uses the comm. Null: test() and isend() say it in time.
  bool (*ended)(void* comm) = nullptr;

  /// True when drain() and fence() may take more than some microseconds: they are then called on a thread of their own,
  /// beside those of other comms. Not for a transport with `unconfirmed`: what its sockets hold is rescued at once.
  bool fenceMayWait = false;
  /// True when regMr() and deregMr() may take long. They are then called beside anything else on the comm (as NCCL does
  /// it), fence() included, but never after its close. False: only by who owns the comm.
  bool memoryMayWait = false;

  /// True when isend() reads any host memory: what is registered does not matter to it.
  bool plainMemory = false;
  /// True when a comm may be closed without fence() once all its sends are done: what of them lies in our kernel then
  /// goes on to the other end, with the process or without it.
  bool closesInOrder = false;
};

struct InnerNet {
  const ncclNet_t* net;
  const InnerOps* ops;
};

/// Operations for one of the fork's own nets, or null: such a net is passed through unwrapped.
const InnerOps* innerOps(const ncclNet_t* net);
/// The net as R2CC calls it, with its operations: IB has a few functions that differ from what stock NCCL calls.
InnerNet innerNet(const ncclNet_t* net);

}  // namespace r2cc
