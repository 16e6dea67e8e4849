// Communicators of one node a rank that begin with schedules, and what they need of NCCL there. It stands still: what
// is connected is counted, and nothing is sent.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm.h"
#include "graph/topo.h"

namespace r2cc::nccl::test {

/// Ranks in threads of one process meet: their bootstrap. Counts what they connect.
class Meeting {
 public:
  explicit Meeting(int ranks) : ranks_(ranks) {}
  void gather(int rank, void* all, int size);
  void connects(int peers);
  int connected();

 private:
  const int ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<char> gathering_, gathered_;
  int here_ = 0, rounds_ = 0, connected_ = 0;
};

/// What a communicator has for a bootstrap.
struct Seat {
  Meeting& meeting;
  const int rank;
};

/// A rank's communicator, over the net that is ours, with one ring along 0, 1, 2, ...
class Beginner {
 public:
  Beginner(Meeting& meeting, int rank, int ranks);
  ~Beginner();
  Beginner(const Beginner&) = delete;
  Beginner& operator=(const Beginner&) = delete;

  ncclComm& operator*() { return *comm_; }

 private:
  Seat seat_;
  std::vector<int> nodes_;
  uint32_t abortFlag_ = 0;
  const std::unique_ptr<ncclTopoSystem, void (*)(void*)> topo_;  // of many MiB that nobody touches
  const std::unique_ptr<ncclSharedResources> shared_ = std::make_unique<ncclSharedResources>();
  ncclComm* const comm_;
};

/// Where this thread's rank meets the others; empty: nowhere.
std::string& meetsAt();

/// Of another plugin.
ncclNet_t* otherNet();

}  // namespace r2cc::nccl::test
