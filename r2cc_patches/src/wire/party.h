// What the two ends of a connection are, whether they fit, and what to say when they do not.
#pragma once

#include <cstdint>
#include <string>

#include "wire/encryption.h"
#include "wire/handle.h"

namespace r2cc {

/// The transport under R2CC. Both ends of a lane need the same.
enum class Inner : uint8_t { Unknown, Ib, Socket, Other };

struct Party {
  std::string where;   // a host's name or address
  uint64_t build = 0;  // the first ten digits of its id; 0: not known
  int mode = 0;        // R2CC_MODE; 0: not known
  uint8_t wire = kWireVersion;
  Inner inner = Inner::Unknown;
  bool tls = false;     // R2CC_TLS
  uint32_t secret = 0;  // Encryption::check
};

/// This process.
Party ownParty(int mode, Inner inner, const Encryption* encryption = nullptr);

/// The first ten digits of a build id (16 hexadecimal digits); 0 for any other text.
uint64_t buildNumber(const std::string& id);
Inner innerOf(const std::string& netName);

/// What a handle says of its writer. `version`: see openHandle().
Party partyOf(const ConnectHandle& handle, uint8_t version);
/// Writes it into the handle.
void describeIn(ConnectHandle& handle, const Party& writer);

/// Why these two cannot talk, and what to do; empty: they can.
std::string conflict(const Party& here, const Party& there);
/// What differs and does no harm; empty: nothing.
std::string difference(const Party& here, const Party& there);
/// `there` wrote no handle of R2CC's, but `handle`.
std::string withoutR2cc(const Party& here, const void* handle);

}  // namespace r2cc
