// TCP plumbing of the bootstrap: addresses, listening, connecting, and one framed control connection.
#pragma once

#include <deque>
#include <string>

#include "agree/net/socket.h"
#include "base/fd.h"
#include "bench/ranks/frame.h"

namespace r2cc::bench {

constexpr size_t kMaxControlPayload = 64u << 20;

using agree::Address;

Fd listenAsRoot(const Address& address);  // throws TransportError
// An invalid Fd if nobody accepts within the time.
Fd tryConnect(const Address& address, int timeoutMs);
// Of a connected socket's own end, numeric.
std::string localHost(int fd);
// A host that vanishes without a word is noticed within about six seconds.
void watchLiveness(int fd);

class ControlLink {
 public:
  ControlLink(Fd fd, size_t maxPayload) : fd_(std::move(fd)), reader_(maxPayload) {}

  int fd() const { return fd_.get(); }
  bool open() const { return fd_.valid(); }
  void close() { fd_.reset(); }
  void trust() { reader_.allow(kMaxControlPayload); }

  // Sends all of it or returns false: the peer is gone, or has not read for ten seconds.
  bool send(FrameType type, const std::string& payload) const;
  // Takes what the socket has. False once the peer has closed. Throws ProtocolError.
  bool receive();

  std::deque<Frame> frames;

 private:
  Fd fd_;
  FrameReader reader_;
};

}  // namespace r2cc::bench
