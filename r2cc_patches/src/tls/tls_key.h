// A key that only one thing is encrypted with: both ends of a lane know it.
#pragma once

#include <array>
#include <cstdint>

namespace r2cc {

using TlsKey = std::array<uint8_t, 32>;

}  // namespace r2cc
