// What this host's own NICs can carry (record/r2cc_health.h), and what is said of paths. One path says nothing about
// whose end is at fault: a NIC is slow, or lost, when all that is known of its paths says so, what others send to it
// included. The sending end of a path judges it, and tells the other end what it found.
#pragma once

#include <string>
#include <vector>

#include "nic/nic_traffic.h"
#include "paths/shared.h"
#include "record/health_board.h"

namespace r2cc {

class NicReport {
 public:
  /// `board`: where it is written, or null.
  NicReport(Shared& shared, HealthBoard* board);
  /// The NICs as the process begins; and that it ends.
  void open();
  void close();
  /// Something happened that may be a NIC's.
  void changed() {
    changed_ = true;
    version_++;
  }
  /// Ascends with whatever may be a NIC's.
  uint64_t version() const { return version_; }
  /// What each NIC can carry, 0 to 1, as of the last tick.
  const std::vector<double>& capacities() const { return capacities_; }
  /// A path's new state, for the journal and the flight recorder.
  void path(const Peer& peer, const Path& path, const char* state, const std::string& cause);
  /// The other end says what a path to one of our NICs carries.
  void onPathHealth(const Peer& peer, const PathHealth& message);
  void tick(int64_t now);
  /// Whether NICs may be compared by what they carry.
  bool comparable() const { return schedule().number == 0; }
  /// What loads them unevenly, as the connections of one schedule see it.
  RunningSchedule schedule(uint64_t asked = 0) const {
    return board_ == nullptr ? RunningSchedule{} : board_->schedule(asked);
  }
  /// What a connection is that is made now.
  ScheduleConnection scheduleConnection() const {
    return board_ == nullptr ? ScheduleConnection{} : board_->scheduleConnection();
  }

 private:
  struct Evidence;
  void wellHere(size_t nic, int64_t now);
  double inAll(size_t nic, double byPaths, int64_t now);
  std::vector<Evidence> evidence(int64_t now);
  Shared& shared_;
  HealthBoard* const board_;
  NicTraffic traffic_;
  bool changed_ = false;
  uint64_t schedule_ = 0;  // schedule(), at the last tick
  uint64_t version_ = 0;
  std::vector<double> capacities_;
  int64_t lookedNs_ = 0;
};

}  // namespace r2cc
