// How the ranks find each other, exchange handles, wait for each other, and notice each other's end.
//
// A star: every rank has one TCP connection to rank 0, on the management network. Whatever goes wrong anywhere reaches
// every rank at once: rank 0 sees the connection close, or is told, and tells the others.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bench/options.h"
#include "bench/ranks/control.h"

namespace r2cc::bench {

class Bootstrap {
 public:
  // Meets the others. Strangers (wrong magic, length, nonce or rank, or no word for five seconds) are turned away and
  // counted, never waited for. Throws TransportError when somebody has not come after --timeout-s.
  explicit Bootstrap(const Options& options);

  // Everybody's payload, by rank. All ranks call this in the same order; with empty payloads it is a barrier.
  // Throws TransportError when a rank dies, fails, or does not come within --timeout-s.
  std::vector<std::string> allGather(const std::string& mine);
  void barrier() { (void)allGather(""); }

  // Waits until `fd` is readable while watching the other ranks, but with --told-by net. `progress` must change at
  // least every --timeout-s.
  void waitFor(int fd, const std::function<uint64_t()>& progress);

  // Tells the others why this rank ends. Never throws: it is the last thing a rank does.
  void fail(const std::string& why) noexcept;

  // Takes what has come, without waiting. Throws TransportError when a rank has ended.
  void look() { (void)pump(0, -1); }
  // This process's address on the way to the others, numeric, without port.
  std::string localAddress() const;

  int turnedAway() const { return turnedAway_; }

 private:
  struct Pending;

  void meetAsRoot();
  void meetRoot();
  void pollPending(int listener, std::vector<Pending>& pending);
  void judge(Pending& stranger);
  void admit(Pending& stranger, const Hello& hello);
  void refuse(Pending& stranger, const std::string& why);
  std::string missingRanks() const;

  static bool readable(int fd, int timeoutMs);
  // Reads what has come; true if `extraFd` is readable. Throws when a rank has ended.
  bool pump(int timeoutMs, int extraFd);
  void readLink(int rank, ControlLink& link);
  std::string awaitGather(int rank);

  const Options options_;
  const Address address_;
  std::map<int, ControlLink> links_;  // rank 0: to every other rank; others: to rank 0
  int turnedAway_ = 0;
};

}  // namespace r2cc::bench
