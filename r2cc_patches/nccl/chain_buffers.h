// Buffers of the connections that are there for schedules alone. What runs on them is of protocol Simple, in chunks of
// a few hundred KiB at most: NCCL's other two buffers would never be used, and half of Simple's is enough. That is 2
// MiB instead of 9.3 for each direction of a connection over NICs; inside a node NCCL's own stay.
#pragma once

#include "comm.h"

namespace r2cc::schedules {

/// What this thread connects meanwhile has small buffers, and is that schedule's (r2ccScheduleConnects).
class SmallBuffers {
 public:
  explicit SmallBuffers(uint64_t schedule);
  ~SmallBuffers();
  SmallBuffers(const SmallBuffers&) = delete;
  SmallBuffers& operator=(const SmallBuffers&) = delete;

 private:
  const int before_;
};

/// Bytes of one of the NCCL_STEPS slots of such a buffer.
int slotBytes(const ncclComm* comm);

}  // namespace r2cc::schedules
