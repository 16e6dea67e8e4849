#include "bench/options.h"

#include <charconv>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <utility>

#include "bench/data/pattern.h"
#include "bench/errors.h"
#include "bench/programs/plan_schedule.h"
#include "planner/exact.h"

namespace r2cc::bench {
namespace {

constexpr int kMaxSlots = 32;  // NCCL_NET_MAX_REQUESTS: a net accepts no more requests on one comm
constexpr int kMaxMerged = 4;  // NCCL_NET_MAX_DEVS_PER_NIC
constexpr int kMostInARow = 16;
constexpr uint32_t kMaxChunkBytes = 64u << 20;

template <typename Int>
Int parseInt(const std::string& option, const std::string& text, Int low, Int high) {
  Int value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    throw UsageError(option + " takes a whole number from " + std::to_string(low) + " to " + std::to_string(high) +
                     ", not '" + text + "'");
  }
  return value;
}

template <typename Enum>
Enum parseEnum(const std::string& option, const std::string& text, const std::map<std::string, Enum>& names) {
  const auto found = names.find(text);
  if (found != names.end()) return found->second;
  std::string choices;
  for (const auto& [name, value] : names) choices += (choices.empty() ? "" : ", ") + name;
  throw UsageError(option + " takes one of " + choices + ", not '" + text + "'");
}

// "ADDR:PORT" or "[V6]:PORT"; the address itself is checked when it is resolved.
void parseRoot(const std::string& text, Options& options) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) throw UsageError("--root takes ADDR:PORT, not '" + text + "'");
  options.rootAddress = text.substr(0, colon);
  if (options.rootAddress.front() == '[' && options.rootAddress.back() == ']') {
    options.rootAddress = options.rootAddress.substr(1, options.rootAddress.size() - 2);
  }
  options.rootPort = parseInt<uint16_t>("--root's port", text.substr(colon + 1), 1, UINT16_MAX);
}

Corruption parseCorruption(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) throw UsageError("--corrupt takes RANK:ITERATION, not '" + text + "'");
  return {parseInt<int>("--corrupt's rank", text.substr(0, colon), 0, kMaxRanks - 1),
          parseInt<int64_t>("--corrupt's iteration", text.substr(colon + 1), 0, INT64_MAX)};
}

// "RANK:REST" split at the first colon.
std::pair<int, std::string> parseRankPrefix(const std::string& option, const std::string& form,
                                            const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) throw UsageError(option + " takes " + form + ", not '" + text + "'");
  return {parseInt<int>(option + "'s rank", text.substr(0, colon), 0, kMaxRanks - 1), text.substr(colon + 1)};
}

CarrierCorruption parseCarrierCorruption(const std::string& text) {
  const char* const form = "RANK:NIC:LOSSES";
  const auto [rank, rest] = parseRankPrefix("--corrupt-carrier", form, text);
  const size_t colon = rest.rfind(':');
  if (colon == std::string::npos || colon == 0 || rest.find('/') != std::string::npos) {
    throw UsageError(std::string("--corrupt-carrier takes ") + form + ", not '" + text + "'");
  }
  return {rank, rest.substr(0, colon),
          parseInt<uint64_t>("--corrupt-carrier's losses", rest.substr(colon + 1), 1, UINT64_MAX)};
}

Lateness parseLateness(const std::string& text) {
  const char* const form = "RANK:ITERATION:MS";
  const auto [rank, rest] = parseRankPrefix("--late", form, text);
  const size_t colon = rest.find(':');
  if (colon == std::string::npos) throw UsageError(std::string("--late takes ") + form + ", not '" + text + "'");
  return {rank, parseInt<int64_t>("--late's iteration", rest.substr(0, colon), 0, INT64_MAX),
          parseInt<int>("--late's milliseconds", rest.substr(colon + 1), 0, 3'600'000)};
}

Pretence parsePretence(const std::string& text) {
  const char* const form = "RANK:ITERATION:NIC:PERCENT";
  const auto [rank, rest] = parseRankPrefix("--pretend", form, text);
  const size_t first = rest.find(':'), last = rest.rfind(':');
  if (first == std::string::npos || last <= first + 1) {
    throw UsageError(std::string("--pretend takes ") + form + ", not '" + text + "'");
  }
  return {rank, parseInt<int64_t>("--pretend's iteration", rest.substr(0, first), 0, INT64_MAX),
          rest.substr(first + 1, last - first - 1),
          parseInt<int>("--pretend's percent", rest.substr(last + 1), 0, 100)};
}

SlowToAgree parseSlowToAgree(const std::string& text) {
  const auto [rank, rest] = parseRankPrefix("--slow-to-agree", "RANK:MS", text);
  return {rank, parseInt<int>("--slow-to-agree's milliseconds", rest, 0, 3'600'000)};
}

using Setter = std::function<void(Options&, const std::string& option, const std::string& value)>;

template <typename Int>
Setter intSetter(Int Options::* field, Int low, Int high) {
  return
      [=](Options& o, const std::string& option, const std::string& v) { o.*field = parseInt(option, v, low, high); };
}

std::map<std::string, Setter> makeSetters() {
  const std::map<std::string, Op> ops{{"allreduce", Op::AllReduce}, {"stream", Op::Stream}, {"alltoall", Op::AllToAll}};
  const std::map<std::string, NetKind> nets{{"socket", NetKind::Socket}, {"ib", NetKind::Ib}};
  const std::map<std::string, planner::Schedule> schedules{
      {"auto", planner::Schedule::Auto}, {"ring", planner::Schedule::Ring}, {"chain", planner::Schedule::Chain}};
  const std::map<std::string, Connect> connects{{"ahead", Connect::Ahead}, {"switch", Connect::Switch}};
  return {
      {"--rank", intSetter(&Options::rank, 0, kMaxRanks - 1)},
      {"--ranks", intSetter(&Options::ranks, 2, kMaxRanks)},
      {"--root", [](Options& o, const std::string&, const std::string& v) { parseRoot(v, o); }},
      {"--op", [ops](Options& o, const std::string& n, const std::string& v) { o.op = parseEnum(n, v, ops); }},
      {"--bytes",
       [](Options& o, const std::string& n, const std::string& v) {
         o.bytes = parseInt<uint64_t>(n, v, sizeof(float), uint64_t{1} << 36);
         o.bytesGiven = true;
       }},
      {"--plan", [](Options& o, const std::string&, const std::string& v) { o.planFile = v; }},
      {"--schedule", [schedules](Options& o, const std::string& n,
                                 const std::string& v) { o.schedule = parseEnum(n, v, schedules); }},
      {"--connect",
       [connects](Options& o, const std::string& n, const std::string& v) { o.connect = parseEnum(n, v, connects); }},
      {"--pretend",
       [](Options& o, const std::string&, const std::string& v) { o.pretended.push_back(parsePretence(v)); }},
      {"--slow-to-agree",
       [](Options& o, const std::string&, const std::string& v) { o.slowToAgree = parseSlowToAgree(v); }},
      {"--iterations", intSetter<int64_t>(&Options::iterations, 1, INT64_MAX / 2)},
      {"--warmup", intSetter<int64_t>(&Options::warmup, 0, 1'000'000)},
      {"--channels", intSetter(&Options::channels, 1, 64)},
      {"--in-a-row", intSetter(&Options::inARow, 1, kMostInARow)},
      {"--connections-per-peer", intSetter(&Options::connectionsPerPeer, 1, 64)},
      {"--chunk-bytes", intSetter<uint32_t>(&Options::chunkBytes, sizeof(float), kMaxChunkBytes)},
      {"--slots", intSetter(&Options::slots, 1, kMaxSlots)},
      {"--seed", intSetter<uint64_t>(&Options::seed, 0, UINT64_MAX)},
      {"--net", [nets](Options& o, const std::string& n, const std::string& v) { o.net = parseEnum(n, v, nets); }},
      {"--merge-nics", intSetter(&Options::mergeNics, 1, kMaxMerged)},
      {"--timeout-s", intSetter(&Options::timeoutS, 1, 86'400)},
      {"--idle-us", intSetter(&Options::idleUs, 0, 100'000)},
      {"--seconds", intSetter(&Options::seconds, 0, 86'400)},
      {"--late", [](Options& o, const std::string&, const std::string& v) { o.late.push_back(parseLateness(v)); }},
      {"--corrupt-carrier",
       [](Options& o, const std::string&, const std::string& v) { o.corruptCarrier = parseCarrierCorruption(v); }},
      {"--corrupt", [](Options& o, const std::string&, const std::string& v) { o.corrupt = parseCorruption(v); }},
      {"--library", [](Options& o, const std::string&, const std::string& v) { o.library = v; }},
      {"--nonce", [](Options& o, const std::string&, const std::string& v) { o.nonce = v; }},
  };
}

planner::Plan readPlan(const std::string& path) {
  std::ifstream in(path);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (in.bad() || text.empty()) throw UsageError("--plan: cannot read " + path);
  try {
    return planner::planFromJson(text);
  } catch (const planner::PlanError& error) {
    throw UsageError("--plan " + path + ": " + error.what());
  }
}

void checkSchedule(const Options& options) {
  if (!options.schedule) {
    if (options.connect == Connect::Ahead && options.pretended.empty() && options.slowToAgree.rank < 0) return;
    throw UsageError("--connect, --pretend and --slow-to-agree take --schedule");
  }
  if (options.op != Op::AllReduce || options.plan) throw UsageError("--schedule takes --op allreduce and no --plan");
  if (options.connectionsPerPeer > 1 || options.mergeNics > 1) {
    throw UsageError("--schedule takes neither --connections-per-peer nor --merge-nics");
  }
  for (const Pretence& pretence : options.pretended) {
    if (pretence.rank >= options.ranks) throw UsageError("--pretend's rank must be below --ranks");
  }
  if (options.slowToAgree.rank >= options.ranks) throw UsageError("--slow-to-agree's rank must be below --ranks");
}

void checkTogether(const Options& options) {
  if (options.rank < 0) throw UsageError("--rank is missing");
  if (options.ranks == 0) throw UsageError("--ranks is missing");
  if (options.rootAddress.empty()) throw UsageError("--root is missing");
  if (options.rank >= options.ranks) throw UsageError("--rank must be below --ranks");
  if (options.bytes % sizeof(float) != 0) throw UsageError("--bytes must be a multiple of 4 (float32 elements)");
  if (options.chunkBytes % sizeof(float) != 0) throw UsageError("--chunk-bytes must be a multiple of 4");
  const bool powerOfTwo = (options.ranks & (options.ranks - 1)) == 0;
  if (options.inARow > 1 && (options.op != Op::AllReduce || !powerOfTwo)) {
    throw UsageError("--in-a-row takes --op allreduce and 2, 4, 8, ... ranks: sums of sums stay exact there");
  }
  checkSchedule(options);
  if (options.corrupt.rank >= options.ranks) throw UsageError("--corrupt's rank must be below --ranks");
  if (options.corrupt.rank >= 0 && options.corrupt.iteration >= options.iterations) {
    throw UsageError("--corrupt's iteration must be below --iterations");
  }
  if (options.corruptCarrier.rank >= options.ranks) {
    throw UsageError("--corrupt-carrier's rank must be below --ranks");
  }
  for (const Lateness& late : options.late) {
    if (late.rank >= options.ranks) throw UsageError("--late's rank must be below --ranks");
    if (late.iteration >= options.iterations) throw UsageError("--late's iteration must be below --iterations");
  }
}

}  // namespace

const char* nameOf(Op op) {
  switch (op) {
    case Op::AllReduce:
      return "allreduce";
    case Op::Stream:
      return "stream";
    case Op::AllToAll:
      return "alltoall";
  }
  return "unknown";
}

std::string usageText() {
  return "usage: r2cc_bench --rank R --ranks N --root ADDR:PORT [options]\n"
         "  --op allreduce|stream|alltoall   what to run (allreduce)\n"
         "  --bytes N                        float32 data of a rank (67108864)\n"
         "  --iterations N  --warmup N       measured (40) and unmeasured (2) iterations\n"
         "  --channels N                     rings; channel c uses NIC c modulo the number of NICs (4)\n"
         "  --plan FILE                      an all-reduce by this plan (`r2cc plan --json`): every part has so many "
         "channels\n"
         "  --schedule auto|ring|chain       an all-reduce that is planned anew whenever NICs come or go (R2CC_MODE "
         "3); "
         "--channels\n"
         "                                   are of the ring and of each cycle of hosts\n"
         "  --connect ahead|switch           make the cycles' connections at the start (ahead), or when a plan needs "
         "them\n"
         "  --connections-per-peer N         connections that share one channel's data (1)\n"
         "  --in-a-row N                     all-reduces of an iteration, one after the other (1)\n"
         "  --chunk-bytes N  --slots N       message size (131072) and messages in flight per connection (8)\n"
         "  --seed N                         changes every input value (1)\n"
         "  --net socket|ib                  transport (socket)\n"
         "  --merge-nics N                   join N NICs in a row into one virtual NIC, if the transport can (1: "
         "none)\n"
         "  --library PATH                   libr2cc_net.so, or any net plugin (default: beside this program)\n"
         "  --timeout-s N                    give up after so long without any progress (120)\n"
         "  --idle-us N                      sleep when nothing moved; 0 spins as NCCL does (200)\n"
         "  --seconds N                      end after so many seconds, if --iterations are not done before (0: "
         "never)\n"
         "  --late RANK:ITERATION:MS         that rank enters that iteration late; may be given several times\n"
         "  --corrupt-carrier RANK:NIC:N     self-test: flip one bit once that NIC has lost its carrier N times\n"
         "  --pretend RANK:ITERATION:NIC:PERCENT  self-test: what that rank says of its NIC from that iteration on\n"
         "  --slow-to-agree RANK:MS          self-test: that rank takes so long to be ready for another schedule\n"
         "  --corrupt RANK:ITERATION         self-test: flip one bit of the result; must end with exit code 1\n"
         "  --nonce TEXT                     ranks with another text are turned away\n"
         "exit: 0 exact, 1 wrong elements, 2 usage, 3 transport error or a peer died\n";
}

Options parseOptions(const std::vector<std::string>& args) {
  const std::map<std::string, Setter> setters = makeSetters();
  Options options;
  for (size_t i = 0; i < args.size(); i++) {
    if (args[i] == "--help" || args[i] == "-h") {
      options.help = true;
      return options;
    }
    const auto setter = setters.find(args[i]);
    if (setter == setters.end()) throw UsageError("unknown option '" + args[i] + "'");
    if (i + 1 == args.size()) throw UsageError(args[i] + " needs a value");
    setter->second(options, args[i], args[i + 1]);
    i++;
  }
  if (!options.planFile.empty() && options.ranks > 0) usePlan(options, readPlan(options.planFile));
  checkTogether(options);
  return options;
}

void usePlan(Options& options, const planner::Plan& plan) {
  const std::string problem = problemOf(plan, options.ranks);
  if (!problem.empty())
    throw UsageError("the plan cannot be run by " + std::to_string(options.ranks) + " ranks: " + problem);
  if (options.op != Op::AllReduce) throw UsageError("--plan takes --op allreduce");
  options.plan = plan;
  if (!options.bytesGiven) options.bytes = plan.bytes;
}

agree::Terms terms(const Options& o) {
  agree::Terms terms{{"--op", nameOf(o.op)}, {"--net", o.net == NetKind::Ib ? "ib" : "socket"}};
  const auto add = [&terms](const char* name, auto value) { terms.push_back({name, std::to_string(value)}); };
  add("--ranks", o.ranks);
  add("--bytes", o.bytes);
  add("--iterations", o.iterations);
  add("--warmup", o.warmup);
  add("--channels", o.channels);
  add("--connections-per-peer", o.connectionsPerPeer);
  add("--in-a-row", o.inARow);
  add("--chunk-bytes", o.chunkBytes);
  add("--slots", o.slots);
  add("--seed", o.seed);
  add("--seconds", o.seconds);
  add("--merge-nics", o.mergeNics);
  terms.push_back({"--schedule", o.schedule ? planner::name(*o.schedule) : ""});
  if (o.schedule) terms.push_back({"--connect", o.connect == Connect::Ahead ? "ahead" : "switch"});
  terms.push_back({"--plan", o.plan ? planner::exactText(*o.plan) : ""});
  terms.push_back({"the net library", o.build});
  return terms;
}

std::string fingerprint(const Options& o) {
  std::string text;
  for (const agree::Term& term : terms(o)) text += (text.empty() ? "" : " ") + term.name + "=" + term.value;
  return text;
}

}  // namespace r2cc::bench
