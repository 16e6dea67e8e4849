// What may be asked of the wire while it runs: one request a datagram, one answer each.
//   set PORT from|to|both drop on|off     set PORT from|to|both loss 0.05     set PORT from|to|both rate 500000000
//   set PORT from|to|both cut on|off      (a cable that is out: `clear` leaves it)
//   set PORT from|to|both tcp on|off      set PORT from|to|both udp on|off    set PORT from|to|both above 1500
//   clear PORT      show
#pragma once

#include <cstdint>
#include <string>

#include "fabric.h"

namespace r2cc::wire {

// "ok", a JSON document for `show`, or "error: ..." for what is not understood; such a request changes nothing.
std::string answer(Fabric& fabric, const std::string& request, uint64_t nowNs);

}  // namespace r2cc::wire
