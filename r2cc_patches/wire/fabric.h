// The switches between the guests, one a rail: frames go to the port whose address they bear, others to all of the
// rail.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "stage.h"

namespace r2cc::wire {

using Mac = std::array<uint8_t, 6>;

// One guest's NIC, at the other end of a pair of datagram sockets.
struct Port {
  Port(std::string portName, int portRail, const Mac& portMac, int portFd, uint64_t seed);

  std::string name;
  int rail;
  Mac mac;
  int fd;
  bool waitsForRoom = false;  // the guest's socket is full
  Stage from;                 // what the NIC sends; when full the guest is not read from, so nothing is lost
  Stage to;                   // what the NIC is sent; when full frames are lost, as in any switch
};

class Fabric {
 public:
  explicit Fabric(std::vector<Port> ports) : ports_(std::move(ports)) {}

  std::vector<Port>& ports() { return ports_; }
  Port* find(const std::string& name);

  // Moves what can be moved. Returns the next time at which a rate lets something go, 0 if there is none.
  uint64_t move(uint64_t nowNs);

  // Takes what a guest has sent, up to a share, so that no port keeps the others waiting.
  void receive(Port& port);

 private:
  void forward(const Port& source, const Frame& frame);
  static void transmit(Port& port, uint64_t nowNs);

  std::vector<Port> ports_;
};

}  // namespace r2cc::wire
