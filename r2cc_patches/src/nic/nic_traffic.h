// What NICs carry in all, by the kernel's own counters. A path that carries less than its siblings may share its NIC
// with more traffic than they do: a NIC that is as busy as its fastest sibling is not slow, whatever its paths say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace r2cc {

class NicTraffic {
 public:
  /// Interfaces, with what the RDMA device of each moves. `sysfs`: for tests.
  explicit NicTraffic(std::vector<std::string> names = {}, std::string sysfs = "/sys");
  /// A second NIC of one interface has no counters of its own.
  void add(const std::string& name);
  /// Reads all counters, five times a second at most; cheap enough while something is suspected, and only then called.
  void look(int64_t now);
  /// In one of the directions, in the last window. False while nothing is known, or little moves.
  bool asBusyAsSiblings(size_t nic) const;
  /// There are counters, and no window of them yet.
  bool waiting(size_t nic) const { return comparable_ && nic < last_.size() && last_[nic].known && out_.empty(); }

 private:
  struct Counters {
    uint64_t out = 0, in = 0;
    bool known = false;
  };
  Counters read(const std::string& name) const;
  std::vector<std::string> names_;
  std::string sysfs_;
  std::vector<Counters> last_;
  std::vector<uint64_t> out_, in_;  // in the last window; empty where fewer than two can be compared
  int64_t lastNs_ = 0;
  bool comparable_ = false;
};

}  // namespace r2cc
