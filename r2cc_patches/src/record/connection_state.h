// What a connection is doing: in the journal by name, in the flight recorder's file by number.
#pragma once

#include <cstdint>

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

inline const char* name(ConnectionState state) {
  switch (state) {
    case ConnectionState::Connecting:
      return "connecting";
    case ConnectionState::Active:
      return "active";
    case ConnectionState::Frozen:
      return "frozen";
    case ConnectionState::Exchanging:
      return "exchanging";
    case ConnectionState::Holding:
      return "holding";
    case ConnectionState::Closed:
      return "closed";
    case ConnectionState::Failed:
      return "failed";
  }
  return "?";
}

}  // namespace r2cc
