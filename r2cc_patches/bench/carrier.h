// Self-test: a bench that is wrong once a NIC has lost its carrier so often, for tools that look for such failures.
#pragma once

#include <cstdint>

#include "options.h"

namespace r2cc::bench {

class CarrierWatch {
 public:
  // Losses count from here. Throws UsageError when this rank is meant and its host has no such NIC.
  CarrierWatch(const CarrierCorruption& wanted, int rank);

  // True once: when the NIC has lost its carrier as often as was asked for.
  bool due();

 private:
  uint64_t losses() const;

  const CarrierCorruption wanted_;
  bool armed_;
  uint64_t before_ = 0;
};

}  // namespace r2cc::bench
