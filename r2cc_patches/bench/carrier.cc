#include "carrier.h"

#include <fstream>

#include "errors.h"

namespace r2cc::bench {

CarrierWatch::CarrierWatch(const CarrierCorruption& wanted, int rank) : wanted_(wanted), armed_(wanted.rank == rank) {
  if (armed_) before_ = losses();
}

bool CarrierWatch::due() {
  if (!armed_ || losses() - before_ < wanted_.losses) return false;
  armed_ = false;
  return true;
}

uint64_t CarrierWatch::losses() const {
  std::ifstream file("/sys/class/net/" + wanted_.nic + "/carrier_down_count");
  uint64_t count = 0;
  if (!(file >> count)) throw UsageError("--corrupt-carrier: this host has no NIC " + wanted_.nic);
  return count;
}

}  // namespace r2cc::bench
