/* Two ends of a connection, the lanes and the side channel between them. See docs/internals/model.md. */
#include "state.pml"
#include "sender.pml"
#include "receiver.pml"
#include "world.pml"
