// A pair of comms of the fork's own socket transport over loopback, in this process.
#pragma once

#include <functional>
#include <string>

#include "inner/inner_net.h"
#include "wire/wire.h"

extern ncclNet_t ncclNetSocket;
extern const r2cc::InnerOps r2ccNetSocketOps;

namespace r2cc::fake {

/// The fork's sockets on the loopback interface, initialised once in the process.
InnerNet socketNet();

/// Until `what` holds, by turns; false when it does not within the time.
bool spin(int64_t limitNs, const std::function<bool()>& what);

/// A sending and a receiving comm of a net between two of its devices. Fenced and closed at the end.
struct CommPair {
  CommPair(const InnerNet& net, void* ctx, int from, int to) : CommPair(net, ctx, from, ctx, to) {}
  CommPair(const InnerNet& net, void* sendCtx, int from, void* recvCtx, int to);
  ~CommPair();
  CommPair(const CommPair&) = delete;
  CommPair& operator=(const CommPair&) = delete;
  bool connected() const { return sender != nullptr && receiver != nullptr; }
  /// Sends one message and receives it; false when it did not get through.
  bool pass(void* from, void* to, size_t size, void* sendMr = nullptr, void* recvMr = nullptr);

  const InnerNet net;
  void* sender = nullptr;
  void* receiver = nullptr;
};

/// Runs in a process of its own, whose transport nobody has initialised, in a network namespace of its own with only a
/// loopback. What it returns: empty if all was well. `why` is set when this machine allows no namespace.
std::string inOwnNamespace(const std::function<std::string()>& body, std::string& why);

}  // namespace r2cc::fake
