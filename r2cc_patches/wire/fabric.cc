#include "fabric.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace r2cc::wire {
namespace {

constexpr size_t kMaxFrame = size_t{70} * 1024;
constexpr int kShare = 64;
constexpr uint64_t kFromBytes = uint64_t{256} * 1024;
constexpr uint64_t kToBytes = uint64_t{4} * 1024 * 1024;
constexpr size_t kAddresses = 12;  // destination and source: a shorter frame is none

bool isGroup(const Mac& mac) { return (mac[0] & 1) != 0; }

uint64_t earliest(uint64_t a, uint64_t b) { return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b); }

}  // namespace

Port::Port(std::string portName, int portRail, const Mac& portMac, int portFd, uint64_t seed)
    : name(std::move(portName)),
      rail(portRail),
      mac(portMac),
      fd(portFd),
      from(kFromBytes, 2 * seed),
      to(kToBytes, 2 * seed + 1) {}

Port* Fabric::find(const std::string& name) {
  const auto found = std::find_if(ports_.begin(), ports_.end(), [&](const Port& port) { return port.name == name; });
  return found == ports_.end() ? nullptr : &*found;
}

void Fabric::receive(Port& port) {
  static thread_local Bytes buffer(kMaxFrame);
  for (int count = 0; count < kShare && !port.from.full(); count++) {
    const ssize_t size = recv(port.fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (size < 0) return;
    if (static_cast<size_t>(size) < kAddresses) continue;
    port.from.push(std::make_shared<const Bytes>(buffer.begin(), buffer.begin() + size));
  }
}

uint64_t Fabric::move(uint64_t nowNs) {
  uint64_t next = 0;
  for (Port& port : ports_) {
    while (const Frame frame = port.from.front(nowNs)) {
      forward(port, frame);
      port.from.pop();
    }
    next = earliest(next, port.from.readyAtNs());
  }
  for (Port& port : ports_) {
    if (!port.waitsForRoom) transmit(port, nowNs);
    if (!port.waitsForRoom) next = earliest(next, port.to.readyAtNs());
  }
  return next;
}

void Fabric::forward(const Port& source, const Frame& frame) {
  Mac target;
  std::copy_n(frame->begin(), target.size(), target.begin());
  const auto isTarget = [&](const Port& port) { return port.rail == source.rail && port.mac == target; };
  const auto known = std::find_if(ports_.begin(), ports_.end(), isTarget);
  if (!isGroup(target) && known != ports_.end()) {
    if (&*known != &source) known->to.push(frame);
    return;
  }
  for (Port& port : ports_) {
    if (port.rail == source.rail && &port != &source) port.to.push(frame);
  }
}

void Fabric::transmit(Port& port, uint64_t nowNs) {
  while (const Frame frame = port.to.front(nowNs)) {
    const ssize_t sent = send(port.fd, frame->data(), frame->size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS)) {
      port.waitsForRoom = true;
      return;
    }
    port.to.pop();  // sent, or the guest is gone: either way it does not wait any longer
  }
}

}  // namespace r2cc::wire
