// The two doors into R2CC: the hook in NCCL's plugin/net.cc, and the stand-alone library.
#pragma once

#include "inner/inner_net.h"
#include "nccl_net.h"

/// Returns the resilient net around `inner`, or `inner` itself when R2CC_MODE is 0 or the net has no fence and cancel
/// (device-offload nets, nets we have no operations for). Called once per inner net, before any communicator exists.
ncclNet_t* r2ccWrapNet(ncclNet_t* inner);

/// Makes a net of another plugin one that r2ccWrapNet wraps; without a fence in `ops` it is passed through. At most
/// once in a process, before any init.
ncclNet_t* r2ccTakeOtherNet(const ncclNet_t& net, const r2cc::InnerOps& ops);

/// Whether a net is what r2ccWrapNet made.
bool r2ccWraps(const ncclNet_t* net);

/// For a net that is not wrapped, before it connects: true where R2CC wrote the handle, which that net would take for
/// an address. The end that listens is told that nothing will come.
bool r2ccRefuse(const void* handle);

/// commFree: whether the communicator's user aborts it. Then the end waits for little where it waits for what peers
/// lack; one that is freed later and ends well takes that back.
void r2ccNetAborts(bool aborts);

/// transport/net.cc, where NCCL was told that a message of a connection is done, in order: the head that it may publish
/// instead of `head`. From the first such call on it may be told so while the receiver still lacks the message: its
/// slot must then keep what it holds until a head beyond it is given (data/slot_credits.h). For connections whose
/// slots nobody writes to without that head.
uint64_t r2ccSendHead(const ncclNet_t* net, void* sendComm, uint64_t head);
/// The same later, on every turn in which it has something to send there; `more`: a higher one than before. An error
/// says that no more will come.
ncclResult_t r2ccMoreCredit(const ncclNet_t* net, void* sendComm, uint64_t* head, bool* more);

extern "C" {
/// For programs that drive a net themselves (the host bench): an ncclNet_t for "Socket" or "IB", wrapped as
/// R2CC_MODE says; null for another name.
__attribute__((visibility("default"))) const void* r2ccNetGet(const char* inner);
}
