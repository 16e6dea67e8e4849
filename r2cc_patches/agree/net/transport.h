// How a session reaches the other ranks: Hub on rank 0, Spoke on all others. On the loop's thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agree/net/socket.h"
#include "agree/protocol/message.h"
#include "base/siphash.h"

namespace r2cc::agree {

/// What ranks tell each other of themselves at the start.
struct Card {
  std::string host;  // numeric
  uint16_t port = 0;
  std::string where;   // for messages: address, host and process
  std::string cannot;  // why it takes no part; empty: it does
  std::string terms;   // textOf() of what must be alike
  uint64_t termsHash = 0;
  uint64_t agreement = 0;
  Key key{};  // of rank 0
};
std::string encode(const Card& card);
/// Throws std::runtime_error when it is none.
Card decodeCard(const std::string& text);

constexpr int64_t kLookNs = 500000000;  // connections are looked at this often, or more

struct Patience {
  int64_t holdNs = 0, closedNs = 0, silenceNs = 0;
};

/// The session, as its transport sees it. None of these may send at once to whoever calls them.
class Upward {
 public:
  virtual ~Upward() = default;
  virtual void received(int rank, const Message& message) = 0;
  /// For Patience::holdNs; or, `closed`, for closedNs, as its process closed the connection or its port refuses. It is
  /// tried on. Each is said once, until it is reached.
  virtual void unreached(int rank, const std::string& cause, bool closed) = 0;
  /// A first frame came over a new connection. `again`: not for the first time.
  virtual void reached(int rank, bool again) = 0;
  virtual void refused() = 0;      // a caller or a frame that was not genuine
  virtual bool ended() const = 0;  // over or broken: nobody's end matters any more
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual void send(int rank, const Message& message) = 0;
  virtual void tick(int64_t now) = 0;
  virtual int64_t deadline() const = 0;
  /// Everybody is connected and has what was sent, but for the last few messages.
  virtual bool able() const = 0;
  /// Nothing that was sent is still to be acknowledged by anybody who could.
  virtual bool delivered() const = 0;
};

}  // namespace r2cc::agree
