// What r2cc_sampler reads, as parsers of text, and the lines that it writes. No input or output here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace r2cc::bench {

struct NicBytes {
  uint64_t tx = 0;
  uint64_t rx = 0;
  bool operator==(const NicBytes& other) const { return tx == other.tx && rx == other.rx; }
  bool operator!=(const NicBytes& other) const { return !(*this == other); }
};

using NicTable = std::map<std::string, NicBytes>;

// /proc/net/dev, by its header: the columns' order and number are the kernel's to change. Throws std::runtime_error
// when there is no header with bytes for both directions.
class NetDevParser {
 public:
  NicTable parse(std::string_view text);

 private:
  void readHeader(std::string_view line);

  std::string header_;  // as last seen; read again only when it changes
  size_t rxColumn_ = 0;
  size_t txColumn_ = 0;
};

// The first line of /proc/stat: time of all cores in ticks. Waiting for a disk is idle; what a hypervisor gave to
// others while we would have run is stolen, and busy.
struct CpuTicks {
  uint64_t busy = 0;
  uint64_t stolen = 0;
  uint64_t total = 0;
};
std::optional<CpuTicks> parseCpu(std::string_view text);
// `part` of the time between two readings, 0..1; 0 when no time has passed.
double shareOf(uint64_t CpuTicks::* part, const CpuTicks& before, const CpuTicks& after);

// Which NICs a sample reports: those wanted, and of these only those that changed, unless all are asked for.
class SampleFilter {
 public:
  explicit SampleFilter(std::vector<std::string> wanted) : wanted_(std::move(wanted)) {}
  NicTable changed(const NicTable& now, bool all);

 private:
  std::vector<std::string> wanted_;  // empty: all but the loopback
  NicTable last_;
};

// When the next sample is due. Where nothing changes, looking costs and shows nothing: after a tenth of a second
// without a change samples are rarer, until the first change. What begins then is seen that much later at most.
class Pace {
 public:
  static constexpr uint64_t kIdleAfterNs = 100'000'000u;
  static constexpr uint64_t kIdleNs = 40'000'000u;  // an interval that is longer already stays as it is

  Pace(uint64_t intervalNs, uint64_t nowNs) : intervalNs_(intervalNs), changedNs_(nowNs), nextNs_(nowNs) {}
  uint64_t nextNs() const { return nextNs_; }
  // One was taken at `nowNs`. Those that were missed are not made up for.
  void sampled(uint64_t nowNs, bool changed);

 private:
  uint64_t intervalNs_;
  uint64_t changedNs_;
  uint64_t nextNs_;
};

// As many lines as it takes to stay below kMaxLineBytes each; none when the table is empty.
std::vector<std::string> sampleLines(uint64_t tNs, const NicTable& nics);
std::string linkLine(uint64_t tNs, const std::string& nic, bool up);
std::string cpuLine(uint64_t tNs, const CpuTicks& before, const CpuTicks& after);

}  // namespace r2cc::bench
