// What NCCL's init.cc and group.cc call of the rest of NCCL and of CUDA, where there is no GPU.
#pragma once

#include <cstdint>

#include "planner/planner.h"

namespace r2cc::nccl::test {

struct Standing {
  int mode = 1;                                          // R2CC_MODE
  planner::Schedule schedule = planner::Schedule::Auto;  // R2CC_SCHEDULE
  int nics = 1;                                          // of ours, on every host
  const uint32_t* abortFlag = nullptr;
  int childrenBegun = 0;        // communicators that asked for the device's attributes
  int synchronizedAborted = 0;  // waits for the device with the abort flag up
};

Standing& standing();

}  // namespace r2cc::nccl::test
