// UDP sockets for the side channel: one per NIC, bound to that NIC, so that a datagram tests the path it is meant for.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "wire.h"

namespace r2cc {

/// A local interface: a device of the inner net (index == device) or, behind those, the side-only interface.
struct LocalNic {
  std::string name;
  unsigned ifindex = 0;
  NicAddress address;  // port 0 and family 0 when the interface has no IP address
};

/// Finds name's ifindex and first usable address (IPv4 first); family stays 0 when there is none.
LocalNic findLocalNic(const std::string& name, uint8_t dev, bool sideOnly);

class SideChannel {
 public:
  /// Asked before a datagram leaves a NIC; false: it is lost on the way. Any thread. Tests make black holes with it.
  using Filter = std::function<bool(size_t nic, const NicAddress& to, const std::vector<uint8_t>& bytes)>;
  /// Opens a socket on every NIC that has an address and fills in the port numbers.
  explicit SideChannel(std::vector<LocalNic>& nics, Filter filter = nullptr);
  ~SideChannel();
  SideChannel(const SideChannel&) = delete;
  SideChannel& operator=(const SideChannel&) = delete;

  /// -1 where a NIC has no socket.
  const std::vector<int>& fds() const { return fds_; }
  /// Thread-safe. False when the kernel refused (link down, no route): a hint, not a verdict.
  bool send(size_t nic, const NicAddress& to, const std::vector<uint8_t>& bytes) const;

  using OnDatagram = std::function<void(const NicAddress& from, const uint8_t* data, size_t size)>;
  using OnRefused = std::function<void(const NicAddress& to)>;
  /// Reads what is pending on one socket; refused(to) reports "no such port" answers of a live host.
  void receive(size_t nic, const OnDatagram& datagram, const OnRefused& refused) const;

 private:
  void readErrors(int fd, const OnRefused& refused) const;
  const Filter filter_;
  std::vector<int> fds_;
};

}  // namespace r2cc
