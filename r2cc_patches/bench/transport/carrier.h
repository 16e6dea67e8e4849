// Self-test: a bench that is wrong once a NIC has lost its carrier so often, for tools that look for such failures.
#pragma once

#include <cstdint>
#include <fstream>

#include "bench/errors.h"
#include "bench/options.h"

namespace r2cc::bench {

class CarrierWatch {
 public:
  // Losses count from here. Throws UsageError when this rank is meant and its host has no such NIC.
  CarrierWatch(const CarrierCorruption& wanted, int rank) : wanted_(wanted), armed_(wanted.rank == rank) {
    if (armed_) before_ = losses();
  }

  // True once: when the NIC has lost its carrier as often as was asked for.
  bool due() {
    if (!armed_ || losses() - before_ < wanted_.losses) return false;
    armed_ = false;
    return true;
  }

 private:
  uint64_t losses() const {
    std::ifstream file("/sys/class/net/" + wanted_.nic + "/carrier_down_count");
    uint64_t count = 0;
    if (!(file >> count)) throw UsageError("--corrupt-carrier: this host has no NIC " + wanted_.nic);
    return count;
  }

  const CarrierCorruption wanted_;
  bool armed_;
  uint64_t before_ = 0;
};

}  // namespace r2cc::bench
