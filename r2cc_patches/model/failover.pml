/* Two ends of a connection, the lanes and the side channel between them. See docs/internals/model.md. */
#include "state.pml"
#include "making.pml"
#include "handover.pml"
#include "sender.pml"
#include "receiver.pml"
#include "sending.pml"
#include "world.pml"
