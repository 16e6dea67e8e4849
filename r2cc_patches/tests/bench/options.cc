// The command line: what is accepted, and what is refused before anything starts.
#include <algorithm>

#include "bench/errors.h"
#include "bench/options.h"
#include "check.h"

using namespace r2cc::bench;

namespace {

std::vector<std::string> least() { return {"--rank", "1", "--ranks", "4", "--root", "10.250.0.1:29500"}; }

std::vector<std::string> with(const std::vector<std::string>& more) {
  std::vector<std::string> args = least();
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

}  // namespace

TEST(defaults_are_the_contract_s) {
  const Options options = parseOptions(least());
  CHECK_EQ(options.bytes, 67108864U);
  CHECK_EQ(options.iterations, 40);
  CHECK_EQ(options.warmup, 2);
  CHECK_EQ(options.channels, 4);
  CHECK_EQ(options.connectionsPerPeer, 1);
  CHECK_EQ(options.chunkBytes, 131072U);
  CHECK_EQ(options.slots, 8);
  CHECK_EQ(options.rootAddress, std::string("10.250.0.1"));
  CHECK_EQ(options.rootPort, 29500);
  CHECK(options.op == Op::AllReduce && options.net == NetKind::Socket && options.corrupt.rank == -1);
}

TEST(every_option_is_read) {
  const Options options = parseOptions(
      with({"--op", "alltoall", "--net", "ib", "--corrupt", "2:7", "--seed", "18446744073709551615", "--idle-us", "0",
            "--nonce", "n", "--library", "/x/y.so", "--slots", "32", "--merge-nics", "2"}));
  CHECK_EQ(parseOptions(with({"--in-a-row", "16"})).inARow, 16);
  CHECK(options.op == Op::AllToAll && options.net == NetKind::Ib);
  CHECK(options.corrupt.rank == 2 && options.corrupt.iteration == 7);
  CHECK_EQ(options.seed, UINT64_MAX);
  CHECK_EQ(options.slots, 32);
  CHECK_EQ(options.mergeNics, 2);
  const Options more =
      parseOptions(with({"--seconds", "9", "--late", "2:0:50", "--late", "3:7:1000", "--corrupt-carrier", "1:eth1:3"}));
  CHECK_EQ(more.seconds, 9);
  CHECK(more.late.size() == 2 && more.late[1].rank == 3 && more.late[1].iteration == 7 && more.late[1].ms == 1000);
  CHECK(more.corruptCarrier.rank == 1 && more.corruptCarrier.nic == "eth1" && more.corruptCarrier.losses == 3);
  CHECK_EQ(parseOptions({"--rank", "0", "--ranks", "2", "--root", "[fd00::1]:5"}).rootAddress, std::string("fd00::1"));
}

TEST(a_schedule_s_options_are_read_and_refused_without_it) {
  const Options options = parseOptions(with({"--schedule", "auto", "--connect", "switch", "--pretend", "1:20:lo:50",
                                             "--pretend", "2:3:eth0:0", "--slow-to-agree", "3:400"}));
  CHECK(options.schedule == r2cc::planner::Schedule::Auto && options.connect == Connect::Switch);
  CHECK(options.pretended.size() == 2 && options.pretended[0].rank == 1 && options.pretended[0].iteration == 20);
  CHECK(options.pretended[0].nic == "lo" && options.pretended[0].percent == 50 && options.pretended[1].percent == 0);
  CHECK(options.slowToAgree.rank == 3 && options.slowToAgree.ms == 400);
  CHECK(fingerprint(options).find(" --schedule=auto --connect=switch") != std::string::npos);
  for (const std::vector<std::string>& bad :
       std::vector<std::vector<std::string>>{{"--connect", "switch"},
                                             {"--pretend", "1:20:lo:50"},
                                             {"--slow-to-agree", "1:5"},
                                             {"--schedule", "optcc"},
                                             {"--schedule", "auto", "--op", "stream"},
                                             {"--schedule", "auto", "--merge-nics", "2"},
                                             {"--schedule", "auto", "--connections-per-peer", "2"},
                                             {"--schedule", "auto", "--pretend", "4:20:lo:50"},
                                             {"--schedule", "auto", "--pretend", "1:20:lo:101"},
                                             {"--schedule", "auto", "--pretend", "1:20:50"},
                                             {"--schedule", "auto", "--slow-to-agree", "4:1"}}) {
    CHECK(!THROWN(UsageError, parseOptions(with(bad))).empty());
  }
}

TEST(bad_command_lines_are_refused_with_the_option_s_name) {
  const std::vector<std::vector<std::string>> bad{{"--bytes", "6"},
                                                  {"--bytes", "0"},
                                                  {"--in-a-row", "0"},
                                                  {"--in-a-row", "17"},
                                                  {"--in-a-row", "2", "--ranks", "3"},
                                                  {"--bytes", "1e6"},
                                                  {"--bytes", "-4"},
                                                  {"--bytes", " 8"},
                                                  {"--op", "reduce"},
                                                  {"--slots", "0"},
                                                  {"--slots", "33"},
                                                  {"--chunk-bytes", "2"},
                                                  {"--chunk-bytes", "131071"},
                                                  {"--channels", "0"},
                                                  {"--net", "tcp"},
                                                  {"--merge-nics", "0"},
                                                  {"--merge-nics", "5"},
                                                  {"--timeout-s", "0"},
                                                  {"--corrupt", "1"},
                                                  {"--corrupt", "4:0"},
                                                  {"--corrupt", "1:40"},
                                                  {"--iterations", "0"},
                                                  {"--warmup", "-1"},
                                                  {"--bogus", "1"},
                                                  {"--seed"},
                                                  {"--rank", "4"},
                                                  {"--ranks", "1"},
                                                  {"--ranks", "65"},
                                                  {"--root", "nowhere"},
                                                  {"--root", "h:0"},
                                                  {"--root", ":5"},
                                                  {"--root", "h:65536"},
                                                  {"--idle-us", "1000000"},
                                                  {"--late", "1:2"},
                                                  {"--late", "1:-1:5"},
                                                  {"--late", "4:0:1"},
                                                  {"--late", "1:40:1"},
                                                  {"--seconds", "-1"},
                                                  {"--corrupt-carrier", "1:eth0"},
                                                  {"--corrupt-carrier", "1:../x:1"},
                                                  {"--corrupt-carrier", "1:eth0:0"},
                                                  {"--corrupt-carrier", "4:eth0:1"}};
  for (const auto& args : bad) {
    const std::string message = THROWN(UsageError, parseOptions(with(args)));
    CHECK(message.find(args[0]) != std::string::npos);
  }
  for (const char* missing : {"--rank", "--ranks", "--root"}) {
    std::vector<std::string> args = least();
    const auto at = std::find(args.begin(), args.end(), missing);
    args.erase(at, at + 2);
    CHECK(THROWN(UsageError, parseOptions(args)).find(missing) != std::string::npos);
  }
}

TEST(fingerprint_holds_all_that_ranks_must_share_and_nothing_of_one_rank) {
  const Options base = parseOptions(least());
  Options other = base;
  other.rank = 3;
  other.timeoutS = 5;
  other.idleUs = 1;
  CHECK_EQ(fingerprint(base), fingerprint(other));
  other.chunkBytes = 4;
  CHECK(fingerprint(base) != fingerprint(other));
  other = base;
  other.seed = 2;
  CHECK(fingerprint(base) != fingerprint(other));
}
