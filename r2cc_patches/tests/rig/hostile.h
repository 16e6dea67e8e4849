// A stranger on the network, as the hostile-peer tests use one: real sockets, no key.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "rig.h"

namespace r2cc::fake {

/// Datagrams seen on their way, with where they were going: all that an eavesdropper has.
class Captured {
 public:
  struct One {
    int from;
    NicAddress to;
    std::vector<uint8_t> bytes;
  };
  /// Call before rig.start().
  void watch(Rig& rig, size_t most = 400);
  std::vector<One> all() const;

 private:
  struct Tape {
    std::mutex mutex;
    std::vector<One> seen;
  };
  const std::shared_ptr<Tape> tape_ = std::make_shared<Tape>();  // the rig goes on writing after we are gone
};

class Stranger {
 public:
  /// `from`: a loopback address to send from, or none.
  explicit Stranger(const char* from = nullptr);
  ~Stranger();
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;
  void send(const NicAddress& to, const std::vector<uint8_t>& bytes) const;

 private:
  const int fd_;
};

/// Sends `make(i)` to `to` at a rate (0: as fast as it can) until it is stopped.
class Flood {
 public:
  Flood(const NicAddress& to, int perSecond, std::function<std::vector<uint8_t>(uint64_t)> make);
  ~Flood() { stop(); }
  Flood(const Flood&) = delete;
  Flood& operator=(const Flood&) = delete;
  void stop();
  uint64_t sent() const { return sent_; }

 private:
  void run(const NicAddress& to, int perSecond);
  const std::function<std::vector<uint8_t>(uint64_t)> make_;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> sent_{0};
  std::thread thread_;
};

/// Forged ICMP "port unreachable", which needs a raw socket: false where this process may not have one.
bool forgeRefusal(const NicAddress& victim, const NicAddress& supposedPeer, const std::vector<uint8_t>& quote);

/// What must be the same after an attack as before it.
struct Footprint {
  static Footprint now();
  int descriptors = 0, threads = 0;
  int64_t residentKb = 0;
};

}  // namespace r2cc::fake
