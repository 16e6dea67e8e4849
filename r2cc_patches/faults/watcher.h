// The thread that enforces rules in this process, begun with the first TCP socket.
#pragma once

#include "faults/book.h"

namespace r2cc::faults {

/// Begins it, where `R2CC_FAULTS` names a folder and it does not run: in a child of fork it has to begin anew.
void watch();

/// What calls must obey; it lives as long as the process. None: this library is not ready yet.
Book* book();

}  // namespace r2cc::faults
