// Parsers of the sampler on recorded text.
#include <stdexcept>

#include "bench/json.h"
#include "bench/sampler/sampler.h"
#include "check.h"

using namespace r2cc::bench;

namespace {

constexpr const char* kNetDev =
    "Inter-|   Receive                                                |  Transmit\n"
    " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier "
    "compressed\n"
    "    lo: 1000      10    0    0    0     0          0         0     1000      10    0    0    0     0       0      "
    "    0\n"
    "  eth0: 18446744073709551615 2 0 0 0 0 0 0 77 1 0 0 0 0 0 0\n"
    "eth1:5 2 0 0 0 0 0 0 6 1 0 0 0 0 0 0\n";

}  // namespace

TEST(net_dev_is_read_by_its_header) {
  NetDevParser parser;
  const NicTable table = parser.parse(kNetDev);
  CHECK_EQ(table.size(), 3U);
  CHECK_EQ(table.at("eth0").rx, UINT64_MAX);
  CHECK_EQ(table.at("eth0").tx, 77U);
  CHECK_EQ(table.at("eth1").rx, 5U);  // no blank after the colon
  const NicTable other = parser.parse("a\n face |packets bytes|errs drop bytes\n eth0: 1 2 3 4 5\n");
  CHECK_EQ(other.at("eth0").rx, 2U);
  CHECK_EQ(other.at("eth0").tx, 5U);
}

TEST(net_dev_without_a_header_is_an_error) {
  NetDevParser parser;
  CHECK(THROWN(std::runtime_error, parser.parse("eth0: 1 2 3\n")).find("bytes") != std::string::npos);
}

TEST(cut_lines_of_net_dev_are_left_out) {
  NetDevParser parser;
  const std::string text(kNetDev);
  CHECK_EQ(parser.parse(text.substr(0, text.size() - 20)).count("eth1"), 0U);
}

TEST(cpu_share_counts_steal_and_not_waiting) {
  const CpuTicks before = parseCpu("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3 4 5 6\n").value_or(CpuTicks{});
  const CpuTicks after = parseCpu("cpu  130 0 60 840 60 0 5 5 30 0\n").value_or(CpuTicks{});
  CHECK_EQ(before.total, 1000U);
  CHECK_EQ(before.busy, 150U);
  CHECK_EQ(shareOf(&CpuTicks::busy, before, after), 0.5);
  CHECK_EQ(shareOf(&CpuTicks::stolen, before, after), 0.05);
  CHECK_EQ(shareOf(&CpuTicks::busy, after, after), 0.0);
  CHECK_EQ(parseCpu("cpu 100 0 50 800 50\n").value_or(CpuTicks{}).stolen, 0U);  // a kernel that counts none
  CHECK(!parseCpu("intr 5\n").has_value());
}

TEST(samples_hold_only_what_changed_except_first_and_last) {
  SampleFilter filter({});
  const NicTable first{{"eth0", {1, 1}}, {"eth1", {2, 2}}, {"lo", {9, 9}}};
  CHECK_EQ(filter.changed(first, true).size(), 2U);  // the loopback is no NIC
  CHECK(filter.changed(first, false).empty());
  CHECK_EQ(filter.changed({{"eth0", {1, 1}}, {"eth1", {3, 2}}}, false).count("eth1"), 1U);
  SampleFilter chosen({"eth1"});
  CHECK_EQ(chosen.changed(first, true).size(), 1U);
}

TEST(sample_lines_are_split_below_the_atomic_write) {
  NicTable many;
  for (int i = 0; i < 300; i++) many["h" + std::to_string(i) + "-eth0"] = {UINT64_MAX, UINT64_MAX};
  const auto lines = sampleLines(UINT64_MAX, many);
  CHECK(lines.size() > 3);
  for (const std::string& line : lines) CHECK(line.size() <= kMaxLineBytes);
  CHECK(sampleLines(1, {}).empty());
  CHECK_EQ(sampleLines(1, {{"e", {2, 3}}}).at(0),
           std::string(R"({"t_ns":1,"event":"sample","nics":{"e":{"tx_bytes":2,"rx_bytes":3}}})"));
}

TEST(samples_are_rare_while_nothing_changes) {
  constexpr uint64_t kMs = 1'000'000u;
  Pace pace(10 * kMs, 0);
  uint64_t now = 0;
  const auto step = [&](bool changed) {
    pace.sampled(now, changed);
    const uint64_t before = now;
    now = pace.nextNs();
    return now - before;
  };
  for (int i = 0; i < 20; i++) CHECK_EQ(step(true), 10 * kMs);
  for (int i = 0; i < 9; i++) CHECK_EQ(step(false), 10 * kMs);  // a pause between two steps of a job is no idleness
  for (int i = 0; i < 20; i++) CHECK_EQ(step(false), 40 * kMs);
  CHECK_EQ(step(true), 10 * kMs);
  now += 35 * kMs;  // it did not run for a while
  CHECK_EQ(step(true), 10 * kMs);
  Pace slow(200 * kMs, 0);
  slow.sampled(0, true);
  slow.sampled(200 * kMs, false);
  CHECK_EQ(slow.nextNs(), 400 * kMs);
}
