// What a connection is doing: in the journal by name, in the flight recorder's file by number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace r2cc {

enum class ConnectionState : uint8_t {
  Connecting,  // no lane yet
  Active,      // messages flow
  Frozen,      // a lane of the plan is fenced; another is being looked for
  Exchanging,  // sender: waiting for the receiver's count
  Holding,     // no path at all; waiting for one to return
  Closed,      // the peer closed it and nothing is missing
  Failed,      // given up, with a reason
};

/// "?" for a number that is none.
inline const char* name(ConnectionState state) {
  static constexpr const char* kNames[] = {"connecting", "active", "frozen", "exchanging",
                                           "holding",    "closed", "failed"};
  const auto index = static_cast<size_t>(state);
  return index < std::size(kNames) ? kNames[index] : "?";
}

}  // namespace r2cc
