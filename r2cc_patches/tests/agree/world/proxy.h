// Stands between a rank and rank 0: cuts, holds back, changes and remembers what they say.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "agree/net/socket.h"
#include "agree/net/transport.h"

namespace r2cc::agree::test {

class Proxy {
 public:
  Proxy();
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  /// Lets everybody come through here: for Setup::bend.
  void bend(Card& root);

  std::atomic<bool> stalled{false};  // nothing passes, nothing is lost
  std::atomic<bool> shut{false};     // whoever comes is hung up on
  std::atomic<int> passed{0};        // connections so far
  /// Called with what is about to pass; may change it.
  std::function<void(bool up, std::vector<uint8_t>& bytes)> spoil;

  /// Ends all connections, in the middle of whatever.
  void cut() { cut_ = true; }
  /// Everything that went up so far, by connection.
  std::vector<std::vector<uint8_t>> heard();

 private:
  struct Pair {
    Fd low, high;
    std::vector<uint8_t> heard;
  };
  void run();
  void accept();
  bool pass(Pair& pair);
  bool forward(const Fd& from, const Fd& to, bool up, Pair& pair);

  Fd listener_;
  Address target_;
  std::mutex mutex_;
  std::list<Pair> pairs_, ended_;
  std::atomic<bool> cut_{false}, stop_{false};
  std::thread thread_;
};

/// A TCP connection to rank 0's door that says what it is told to.
class Stranger {
 public:
  explicit Stranger(const Card& root);
  void say(const std::vector<uint8_t>& bytes) const;
  /// What comes within the time, until `size` bytes are there or the other end hangs up.
  std::vector<uint8_t> hear(size_t size, int limitMs = 2000) const;
  /// The other end hung up within the time.
  bool hungUp(int limitMs = 8000) const;

 private:
  Fd fd_;
};

}  // namespace r2cc::agree::test
