// What this process is like: for its status file, which it writes every second and soon after a change
// (R2CC_STATUS_DIR), and for the line at its end. What it is asked to do (R2CC_CONTROL_DIR) comes the same way back.
//
// What is written is put together under the engine's mutex. Files are read and written by a thread of its own, which
// there only is where a folder is named: a disk may hang, and neither the engine nor NCCL's log may wait for it.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "health/nic_report.h"
#include "paths/shared.h"
#include "record/scribe.h"
#include "record/tally.h"
#include "status/drains.h"
#include "wire/dropped.h"

namespace r2cc {

struct StatusOptions {
  std::string folder, controlFolder;  // empty: none
  std::string build, job, net;
  int mode = 0;
};

class Status {
 public:
  Status(StatusOptions options, Shared& shared, const Tally& tally, NicReport& report, Drains& drains,
         const Dropped& dropped);
  ~Status();
  Status(const Status&) = delete;
  Status& operator=(const Status&) = delete;
  void tick(int64_t now);
  /// The engine ends: the file says so, or goes where nothing ever happened.
  void close();
  /// What happened in one line; empty: nothing did.
  std::string endLine() const;

 private:
  enum class NicState : uint8_t { Up, Degraded, Down, Draining };
  struct Nic {
    std::vector<std::string> names;  // the interface's, the device's
    bool data = true;
    NicState state = NicState::Up;
    int64_t sinceMs = 0;
    double capacity = 1;
  };
  struct Event {
    int64_t atMs;
    std::string nic, state;
  };
  struct Desk;  // what the thread works on
  static const char* name(NicState state);
  static int64_t wallMs();
  using RemoteNic = std::pair<uint8_t, std::array<uint8_t, 16>>;  // family, address
  struct Silence {
    bool any = false, dead = false;  // some path is up; some fell silent, and maybe for this end's fault
  };
  void lookAtLinks();
  void look();
  NicState stateOf(size_t nic) const;
  void become(size_t nic, double capacity);
  void becomeRemote(const RemoteNic& nic, bool down);
  void note(const std::string& nic, const char* state);
  std::string text(bool ended) const;
  void addNics(class JsonWriter& out) const;
  void addConnections(JsonWriter& out) const;
  void addTotals(JsonWriter& out) const;

  const StatusOptions options_;
  Shared& shared_;
  const Tally& tally_;
  NicReport& report_;
  Drains& drains_;
  const Dropped& dropped_;
  const std::string host_;
  const int64_t startedMs_;
  const int rank_;  // read once: the program may change its environment while another thread reads it
  std::vector<Nic> nics_;
  std::map<RemoteNic, bool> remoteDown_;  // other hosts' NICs that were ever found down
  uint64_t nicFailures_ = 0;
  std::deque<Event> events_;
  uint64_t seen_ = 0;  // of NicReport::version()
  int64_t next_ = 0, changedNs_ = 0;
  std::shared_ptr<Desk> desk_;  // shared with the thread, which may outlive us
  std::unique_ptr<Scribe> thread_;
  Scribe::Write write_, read_;
};

}  // namespace r2cc
