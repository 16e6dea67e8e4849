// Carrier and addresses of the host's interfaces, from the kernel's netlink notifications (3-4 ms after the loss).
#pragma once

#include <functional>
#include <string>

#include "base/fd.h"

namespace r2cc {

class LinkWatch {
 public:
  LinkWatch();
  /// For epoll; -1 when the kernel gives us no netlink socket (links are then judged by probes alone).
  int fd() const { return fd_.get(); }
  /// Why there is none; empty when there is one. A sandbox may forbid it.
  const std::string& refused() const { return refused_; }
  /// Reads what is pending: calls changed(ifindex, up) for each notification of a link, and addressed(ifindex) for each
  /// of an address that came or went. True: the kernel had no room for some of them, and all that it had room for is
  /// read; every state is to be asked for again.
  bool read(
      const std::function<void(unsigned, bool)>& changed,
      const std::function<void(unsigned)>& addressed = [](unsigned) {});
  /// The state right now; true when it cannot be read.
  static bool isUp(const std::string& interface);
  /// The same; false when there is no such interface any more.
  static bool isUp(unsigned ifindex);

 private:
  Fd fd_;
  std::string refused_;
  bool lost_ = false;  // notifications, since every state was last asked for
};

}  // namespace r2cc
