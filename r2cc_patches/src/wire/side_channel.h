// UDP sockets for the side channel, one of a NIC's address each, so that a datagram tests the path it is meant for. A
// NIC has two: what needs the engine comes to one and wakes it; acknowledgements come to the other, and whoever waits
// for them fetches them. On the same two ports TCP listens, for where UDP does not pass (side_stream.h).
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "inner/inner_net.h"
#include "wire/wire.h"

namespace r2cc {

/// A local NIC: first the devices of the inner net in its order, behind them a last resort and a side-only interface.
struct LocalNic {
  std::string name;  // of the network interface
  unsigned ifindex = 0;
  NicAddress address;   // port 0 and family 0 when the interface has no IP address
  InnerNet inner{};     // what carries data over it; none for a side-only interface
  int dev = 0;          // which device of that it is
  double rateGbit = 0;  // 0: unknown
  bool assumedDown = false;
  bool late = false;                    // it has no address yet, and may get one
  void* ctx = nullptr;                  // to call it with; null: the communicator's own
  std::shared_ptr<const void> keeps{};  // what inner and ctx need to live, where these do not always
};

/// Finds name's ifindex and first usable address (IPv4 first); family stays 0 when there is none.
LocalNic findLocalNic(const std::string& name, uint8_t index, uint8_t flags);

/// Of those that can be talked to.
inline std::vector<NicAddress> addressesOf(const std::vector<LocalNic>& nics) {
  std::vector<NicAddress> out;
  for (const LocalNic& nic : nics) {
    if (nic.address.family != 0 && nic.address.port != 0) out.push_back(nic.address);
  }
  return out;
}

class SideChannel {
 public:
  enum class Way : uint8_t { Udp, Tcp };
  /// Asked before a datagram leaves a NIC; false: it is lost on the way. Any thread. Tests make black holes with it.
  using Filter = std::function<bool(size_t nic, const NicAddress& to, const std::vector<uint8_t>& bytes, Way way)>;
  /// Opens a socket on every NIC that has an address and fills in the port numbers.
  explicit SideChannel(std::vector<LocalNic>& nics, Filter filter = nullptr);

  /// Opens the sockets of a NIC anew, as its address is another, and fills in the ports. False, and nothing changed,
  /// when the kernel does not have that address yet. Descriptors of datagrams keep their numbers: other threads may be
  /// sending.
  bool rebind(LocalNic& nic, size_t index);

  /// By NIC; invalid where it has no socket.
  const std::vector<Fd>& fds() const { return fds_; }
  const std::vector<Fd>& ackFds() const { return ackFds_; }
  const std::vector<Fd>& listenFds() const { return listenFds_; }
  const std::vector<Fd>& ackListenFds() const { return ackListenFds_; }
  /// Thread-safe. False when the kernel refused (link down, no route): a hint, not a verdict. `pinned`: out by this NIC
  /// whatever the routing table says.
  bool send(size_t nic, const NicAddress& to, const std::vector<uint8_t>& bytes, bool pinned) const;
  bool passes(size_t nic, const NicAddress& to, const std::vector<uint8_t>& bytes, Way way) const {
    return !filter_ || filter_(nic, to, bytes, way);
  }
  /// See announceAddress().
  void announce(const LocalNic& nic, size_t index) const;

  using OnDatagram = std::function<void(const NicAddress& from, const uint8_t* data, size_t size)>;
  using OnRefused = std::function<void(const NicAddress& to, const uint8_t* quote, size_t size)>;
  /// Reads some of what is pending on one socket. True when there may be more.
  static bool receive(const Fd& fd, const OnDatagram& datagram);
  /// Something came to the NIC by UDP that nobody has read yet.
  bool unread(size_t nic) const;
  /// "No such port" answers, with as much of the datagram they answer as they quote. epoll says when there are any.
  void readErrors(size_t nic, const OnRefused& refused) const;

 private:
  const Filter filter_;
  std::vector<std::atomic<unsigned>> ifindex_;
  std::vector<Fd> fds_, ackFds_, listenFds_, ackListenFds_;
};

}  // namespace r2cc
