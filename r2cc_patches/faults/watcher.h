// The thread that enforces rules in this process, begun with the first TCP socket or RDMA device.
#pragma once

#include "faults/book.h"
#include "faults/verbs/devices.h"

namespace r2cc::faults {

/// Begins it, where `R2CC_FAULTS` names a folder and it does not run: in a child of fork it has to begin anew.
void watch();

/// Whether `R2CC_FAULTS` names a folder.
bool wanted();

/// Those that this process has opened.
Devices& devices();

/// What calls must obey; it lives as long as the process. None: this library is not ready yet.
Book* book();

}  // namespace r2cc::faults
