#include "paths/shared.h"

#include <utility>

namespace r2cc {

Shared::Shared(std::vector<LocalNic> nicsOfHost, SideChannel::Filter filter, const std::string& eventFile, Say warnLog,
               Say infoLog, int64_t hold, const Probation& probation)
    : nics(std::move(nicsOfHost)),
      side(nics, std::move(filter)),
      holdNs(hold),
      warn(std::move(warnLog)),
      info(std::move(infoLog)),
      events(eventFile),
      peers(self, side, nics, probation) {}

std::vector<NicAddress> Shared::addresses() const {
  std::vector<NicAddress> out;
  for (const LocalNic& nic : nics) {
    if (nic.address.family != 0 && nic.address.port != 0) out.push_back(nic.address);
  }
  return out;
}

}  // namespace r2cc
