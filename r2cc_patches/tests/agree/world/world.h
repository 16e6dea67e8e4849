// Ranks of one communicator in this process, each with a thread that enqueues; and what goes between them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "agree/agreement.h"
#include "agree/net/transport.h"

namespace r2cc::agree::test {

using Ms = std::chrono::milliseconds;

/// Waits until `what` holds, at most ten seconds. False: it never did.
bool eventually(const std::function<bool()>& what, Ms limit = Ms(10000));

/// What ranks in threads of one process exchange.
class Exchange {
 public:
  explicit Exchange(int ranks) : texts_(static_cast<size_t>(ranks)) {}
  std::vector<std::string> gather(int rank, const std::string& mine);
  /// Changes what everybody gets of rank 0: the way to it may lead through a proxy.
  std::function<void(Card&)> bend;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> texts_;
  size_t present_ = 0;
};

struct Setup {
  Setup(int ranks) : ranks(ranks) {}  // World world(3)
  int ranks;
  std::function<void(Options&)> tune;  // of each rank
  Decide decide;                       // default: all reports, joined
  std::function<Prepared(int rank, const std::string& proposal)> prepare;
  std::function<void(Card&)> bend;
};

/// The reports, "+" between them: empty when nobody reported.
std::string joined(const std::vector<std::string>& reports);

class World {
 public:
  explicit World(const Setup& setup);

  Agreement& operator[](int rank) { return *agreements_[static_cast<size_t>(rank)]; }
  int ranks() const { return static_cast<int>(agreements_.size()); }
  void destroy(int rank) { agreements_[static_cast<size_t>(rank)].reset(); }

  /// Enters one group on a rank, with the same history everywhere, and keeps which decision held.
  void enter(int rank);
  void enter(int rank, int groups) {
    for (int i = 0; i < groups; i++) enter(rank);
  }
  /// Every rank enters, each in a thread, until all have seen `epoch`; each pauses as long as `pause` says.
  void enterUntil(uint64_t epoch, const std::function<void(int rank)>& pause = {});
  /// Every rank enters until it has entered `group`.
  void enterUpTo(uint64_t group);

  uint64_t entered(int rank) const { return seen_[static_cast<size_t>(rank)].size(); }
  const std::vector<std::string>& seen(int rank) const { return seen_[static_cast<size_t>(rank)]; }
  /// All ranks had the same decision at every group that they entered.
  bool consistent() const;
  std::string logged();

 private:
  void inThreads(const std::function<void(int rank)>& what);

  Exchange exchange_;
  std::mutex mutex_;
  std::string log_;  // outlives those who write it
  std::vector<std::unique_ptr<Agreement>> agreements_;
  std::vector<std::vector<std::string>> seen_;  // by rank and group: epoch and text
};

}  // namespace r2cc::agree::test
