#include "bench/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <sstream>
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

template <typename Enum, size_t Count>
using Names = std::array<std::pair<const char*, Enum>, Count>;

constexpr Names<Op, 3> kOps{{{"allreduce", Op::AllReduce}, {"alltoall", Op::AllToAll}, {"stream", Op::Stream}}};
constexpr Names<NetKind, 2> kNets{{{"ib", NetKind::Ib}, {"socket", NetKind::Socket}}};
constexpr Names<Connect, 2> kConnects{{{"ahead", Connect::Ahead}, {"switch", Connect::Switch}}};
constexpr Names<ToldBy, 2> kToldBy{{{"all", ToldBy::All}, {"net", ToldBy::Net}}};
constexpr Names<planner::Schedule, 4> kSchedules{{{"auto", planner::Schedule::Auto},
                                                  {"chain", planner::Schedule::Chain},
                                                  {"reranked", planner::Schedule::Reranked},
                                                  {"ring", planner::Schedule::Ring}}};

template <typename Enum, size_t Count>
Enum parseEnum(const std::string& option, const std::string& text, const Names<Enum, Count>& names) {
  std::string choices;
  for (const auto& [name, value] : names) {
    if (text == name) return value;
    choices += (choices.empty() ? "" : ", ") + std::string(name);
  }
  throw UsageError(option + " takes one of " + choices + ", not '" + text + "'");
}

template <typename Enum, size_t Count>
const char* nameIn(const Names<Enum, Count>& names, Enum wanted) {
  return std::find_if(names.begin(), names.end(), [&](const auto& name) { return name.second == wanted; })->first;
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

// A value of several parts: "RANK:...", as `form` has it. The last part but one may hold colons itself (a NIC's name).
class Parts {
 public:
  Parts(std::string option, const std::string& form, const std::string& text) : option_(std::move(option)) {
    std::istringstream in(text);
    for (std::string part; std::getline(in, part, ':');) parts_.push_back(part);
    const auto wanted = static_cast<size_t>(std::count(form.begin(), form.end(), ':')) + 1;
    for (; parts_.size() > wanted; parts_.erase(parts_.end() - 2)) {
      parts_[parts_.size() - 3] += ":" + parts_[parts_.size() - 2];
    }
    const bool empty = std::any_of(parts_.begin(), parts_.end(), [](const std::string& part) { return part.empty(); });
    if (parts_.size() != wanted || empty || text.find('/') != std::string::npos) {
      throw UsageError(option_ + " takes " + form + ", not '" + text + "'");
    }
  }
  const std::string& text(size_t at) const { return parts_[at]; }
  template <typename Int>
  Int number(size_t at, const std::string& what, Int low, Int high) const {
    return parseInt(option_ + "'s " + what, parts_[at], low, high);
  }
  int rank() const { return number(0, "rank", 0, kMaxRanks - 1); }
  int64_t iteration() const { return number<int64_t>(1, "iteration", 0, INT64_MAX); }
  int ms(size_t at) const { return number(at, "milliseconds", 0, 3'600'000); }

 private:
  const std::string option_;
  std::vector<std::string> parts_;
};

using Setter = std::function<void(Options&, const std::string& option, const std::string& value)>;

template <typename Int>
Setter integer(Int Options::* field, Int low, Int high) {
  return
      [=](Options& o, const std::string& option, const std::string& v) { o.*field = parseInt(option, v, low, high); };
}

template <typename Field, typename Enum, size_t Count>
Setter oneOf(Field Options::* field, const Names<Enum, Count>& names) {
  return [=](Options& o, const std::string& option, const std::string& v) { o.*field = parseEnum(option, v, names); };
}

Setter text(std::string Options::* field) {
  return [=](Options& o, const std::string&, const std::string& v) { o.*field = v; };
}

template <typename Set>
Setter parts(const char* form, Set set) {
  return [=](Options& o, const std::string& option, const std::string& v) { set(o, Parts(option, form, v)); };
}

std::map<std::string, Setter> makeSetters() {
  return {
      {"--rank", integer(&Options::rank, 0, kMaxRanks - 1)},
      {"--ranks", integer(&Options::ranks, 2, kMaxRanks)},
      {"--root", [](Options& o, const std::string&, const std::string& v) { parseRoot(v, o); }},
      {"--op", oneOf(&Options::op, kOps)},
      {"--bytes",
       [](Options& o, const std::string& n, const std::string& v) {
         o.bytes = parseInt<uint64_t>(n, v, sizeof(float), uint64_t{1} << 36);
         o.bytesGiven = true;
       }},
      {"--plan", text(&Options::planFile)},
      {"--schedule", oneOf(&Options::schedule, kSchedules)},
      {"--connect", oneOf(&Options::connect, kConnects)},
      {"--told-by", oneOf(&Options::toldBy, kToldBy)},
      {"--pretend", parts("RANK:ITERATION:NIC:PERCENT",
                          [](Options& o, const Parts& p) {
                            o.pretended.push_back({p.rank(), p.iteration(), p.text(2), p.number(3, "percent", 0, 100)});
                          })},
      {"--slow-to-agree", parts("RANK:MS", [](Options& o, const Parts& p) { o.slowToAgree = {p.rank(), p.ms(1)}; })},
      {"--iterations", integer<int64_t>(&Options::iterations, 1, INT64_MAX / 2)},
      {"--warmup", integer<int64_t>(&Options::warmup, 0, 1'000'000)},
      {"--channels", integer(&Options::channels, 1, 64)},
      {"--in-a-row", integer(&Options::inARow, 1, kMostInARow)},
      {"--connections-per-peer", integer(&Options::connectionsPerPeer, 1, 64)},
      {"--chunk-bytes", integer<uint32_t>(&Options::chunkBytes, sizeof(float), kMaxChunkBytes)},
      {"--slots", integer(&Options::slots, 1, kMaxSlots)},
      {"--seed", integer<uint64_t>(&Options::seed, 0, UINT64_MAX)},
      {"--net", oneOf(&Options::net, kNets)},
      {"--merge-nics", integer(&Options::mergeNics, 1, kMaxMerged)},
      {"--timeout-s", integer(&Options::timeoutS, 1, 86'400)},
      {"--idle-us", integer(&Options::idleUs, 0, 100'000)},
      {"--seconds", integer(&Options::seconds, 0, 86'400)},
      {"--late", parts("RANK:ITERATION:MS",
                       [](Options& o, const Parts& p) { o.late.push_back({p.rank(), p.iteration(), p.ms(2)}); })},
      {"--corrupt-carrier", parts("RANK:NIC:LOSSES",
                                  [](Options& o, const Parts& p) {
                                    o.corruptCarrier = {p.rank(), p.text(1),
                                                        p.number<uint64_t>(2, "losses", 1, UINT64_MAX)};
                                  })},
      {"--corrupt", parts("RANK:ITERATION", [](Options& o, const Parts& p) { o.corrupt = {p.rank(), p.iteration()}; })},
      {"--library", text(&Options::library)},
      {"--nonce", text(&Options::nonce)},
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
}

// Whom a self-test or a delay is meant for.
void checkMeant(const Options& options) {
  const auto check = [&](const std::string& option, int rank, int64_t iteration = 0) {
    if (rank >= options.ranks) throw UsageError(option + "'s rank must be below --ranks");
    if (iteration >= options.iterations) throw UsageError(option + "'s iteration must be below --iterations");
  };
  check("--corrupt", options.corrupt.rank, options.corrupt.iteration);
  check("--corrupt-carrier", options.corruptCarrier.rank);
  check("--slow-to-agree", options.slowToAgree.rank);
  for (const Lateness& late : options.late) check("--late", late.rank, late.iteration);
  for (const Pretence& pretence : options.pretended) check("--pretend", pretence.rank);
}

void checkTogether(const Options& options) {
  if (options.rank < 0) throw UsageError("--rank is missing");
  if (options.ranks == 0) throw UsageError("--ranks is missing");
  if (options.rootAddress.empty()) throw UsageError("--root is missing");
  if (options.rank >= options.ranks) throw UsageError("--rank must be below --ranks");
  if (options.bytes % sizeof(float) != 0) throw UsageError("--bytes must be a multiple of 4 (float32 elements)");
  if (options.chunkBytes % sizeof(float) != 0) throw UsageError("--chunk-bytes must be a multiple of 4");
  const bool powerOfTwo = (options.ranks & (options.ranks - 1)) == 0;
  if (options.inARow > 1 && options.op == Op::AllReduce && !powerOfTwo) {
    throw UsageError("--in-a-row with --op allreduce takes 2, 4, 8, ... ranks: sums of sums stay exact there");
  }
  checkSchedule(options);
  checkMeant(options);
}

}  // namespace

const char* nameOf(Op op) { return nameIn(kOps, op); }

std::string usageText() {
  return R"(usage: r2cc_bench --rank R --ranks N --root ADDR:PORT [options]
  --op allreduce|stream|alltoall   what to run (allreduce)
  --bytes N                        float32 data of a rank (67108864)
  --iterations N  --warmup N       measured (40) and unmeasured (2) iterations
  --channels N                     rings; channel c uses NIC c modulo the number of NICs (4)
  --plan FILE                      an all-reduce by this plan (`r2cc plan --json`): every part has so many channels
  --schedule auto|ring|reranked|chain  an all-reduce that is planned anew whenever NICs come or go (R2CC_MODE 3); --channels
                                   are of the ring and of each cycle of hosts
  --connect ahead|switch           make the cycles' connections at the start (ahead), or when a plan needs them
  --connections-per-peer N         connections that share one channel's data (1)
  --in-a-row N                     operations of an iteration, one after the other (1)
  --chunk-bytes N  --slots N       message size (131072) and messages in flight per connection (8)
  --seed N                         changes every input value (1)
  --net socket|ib                  transport (socket)
  --merge-nics N                   join N NICs in a row into one virtual NIC, if the transport can (1: none)
  --library PATH                   libr2cc_net.so, or any net plugin (default: beside this program)
  --timeout-s N                    give up after so long without any progress (120)
  --idle-us N                      sleep when nothing moved; 0 spins as NCCL does (200)
  --seconds N                      end after so many seconds, if --iterations are not done before (0: never)
  --told-by all|net                while data moves a rank hears of another's end also from rank 0 (all), or by its
                                   connections alone (net)
  --late RANK:ITERATION:MS         that rank enters that iteration late; may be given several times
  --corrupt-carrier RANK:NIC:N     self-test: flip one bit once that NIC has lost its carrier N times
  --pretend RANK:ITERATION:NIC:PERCENT  self-test: what that rank says of its NIC from that iteration on
  --slow-to-agree RANK:MS          self-test: that rank takes so long to be ready for another schedule
  --corrupt RANK:ITERATION         self-test: flip one bit of the result; must end with exit code 1
  --nonce TEXT                     ranks with another text are turned away
exit: 0 exact, 1 wrong elements, 2 usage, 3 transport error or a peer died
)";
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
  agree::Terms terms{{"--op", nameOf(o.op)}, {"--net", nameIn(kNets, o.net)}};
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
  if (o.schedule) terms.push_back({"--connect", nameIn(kConnects, o.connect)});
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
