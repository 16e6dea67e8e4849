// Link changes as the kernel announces them (rtnetlink), within milliseconds.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/fd.h"

namespace r2cc::bench {

class LinkWatch {
 public:
  // Learns every NIC's present state without reporting it. Throws std::runtime_error.
  LinkWatch();

  int fd() const { return socket_.get(); }
  // Takes what the kernel has announced and reports each change of "administratively up and with carrier".
  void receive(const std::function<void(const std::string& nic, bool up)>& report);

 private:
  void requestAll();

  Fd socket_;
  std::map<int, bool> up_;  // by interface index
};

}  // namespace r2cc::bench
