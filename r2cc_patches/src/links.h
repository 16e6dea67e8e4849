// Carrier of the host's interfaces, from the kernel's netlink notifications (3-4 ms after the loss).
#pragma once

#include <functional>
#include <string>

namespace r2cc {

class LinkWatch {
 public:
  LinkWatch();
  ~LinkWatch();
  LinkWatch(const LinkWatch&) = delete;
  LinkWatch& operator=(const LinkWatch&) = delete;
  /// For epoll; -1 when the kernel gives us no netlink socket (links are then judged by probes alone).
  int fd() const { return fd_; }
  /// Reads all pending notifications: calls changed(ifindex, up) for each.
  void read(const std::function<void(unsigned, bool)>& changed);
  /// The state right now; true when it cannot be read.
  static bool isUp(const std::string& interface);

 private:
  int fd_ = -1;
};

}  // namespace r2cc
