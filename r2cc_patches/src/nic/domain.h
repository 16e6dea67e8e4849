// Which NICs of this host fail together: ports of one adapter, virtual functions of one port, VLANs and bonds over the
// same link. What one of them loses the others may lose in the same moment.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nic/topology.h"

namespace r2cc {

/// By NIC, the lowest index of those it shares anything with, or its own. `names`: network interfaces, with the card
/// their transport names, if any. Read from sysfs, as it is now. `root` stands before every path of it, for tests.
std::vector<uint8_t> failureDomains(const std::vector<NicName>& names, const std::string& root = "");

}  // namespace r2cc
