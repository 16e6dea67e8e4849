// Asynchronous events of a device, the kernel's and ours, behind the descriptor that the program reads.
#pragma once

#include <cstdint>
#include <thread>

#include "base/fd.h"

namespace r2cc::faults {

class EventPipe {
 public:
  EventPipe() = default;
  EventPipe(const EventPipe&) = delete;
  EventPipe& operator=(const EventPipe&) = delete;
  ~EventPipe() { close(); }

  /// From now on this number is a socket of ours; a thread writes to it what the kernel says. The
  /// number behind which the kernel's is from now on; -1: no descriptors are left, and all stays as it was.
  int open(int asyncFd);

  /// Before the program's descriptor is closed, which stays the caller's.
  void close();

  /// In a child of fork there is no such thread: what it did stands still.
  void inChild() {
    if (thread_.joinable()) thread_.detach();
  }

  /// Somebody reads here.
  bool isOpen() const { return ours_.valid(); }
  /// An event as the kernel would write it. False: nobody reads here.
  bool say(int event, uint8_t port) const;

 private:
  bool begin();
  void run();

  Fd kernel_, ours_, wake_;
  std::thread thread_;
};

}  // namespace r2cc::faults
