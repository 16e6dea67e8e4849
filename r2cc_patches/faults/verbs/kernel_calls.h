// What libibverbs says to the kernel of the descriptor of a device's events, where that is one of ours.
#pragma once

#include <rdma/rdma_user_ioctl.h>
#include <rdma/rdma_user_ioctl_cmds.h>

namespace r2cc::faults {

/// The attribute by which a new queue, queue pair or the like is given that descriptor; null: this is no such call.
ib_uverbs_attr* eventFdOf(ib_uverbs_ioctl_hdr& call);

}  // namespace r2cc::faults
