#include "driver_options.h"

#include <charconv>
#include <functional>
#include <map>
#include <sstream>

#include "bench/errors.h"
#include "tables.h"

namespace r2cc::driver {
namespace {

using bench::UsageError;
using Setter = std::function<void(Options&, const std::string& option, const std::string& value)>;

constexpr uint64_t kMostBytes = 64u << 20;
constexpr int kMostFlight = 32;  // NCCL_NET_MAX_REQUESTS

template <typename Int>
Int number(const std::string& option, const std::string& text, Int low, Int high) {
  Int value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= low && value <= high) return value;
  throw UsageError(option + " takes a whole number from " + std::to_string(low) + " to " + std::to_string(high) +
                   ", not '" + text + "'");
}

template <typename Int>
Setter numberSetter(Int Options::* field, Int low, Int high) {
  return [=](Options& o, const std::string& option, const std::string& text) {
    o.*field = number(option, text, low, high);
  };
}

Setter textSetter(std::string Options::* field) {
  return [=](Options& o, const std::string&, const std::string& text) { o.*field = text; };
}

Setter listSetter(std::vector<int> Options::* field) {
  return [=](Options& o, const std::string& option, const std::string& text) {
    (o.*field).clear();
    std::istringstream parts(text);
    for (std::string part; std::getline(parts, part, ',');) (o.*field).push_back(number(option, part, 0, 15));
    if ((o.*field).empty()) throw UsageError(option + " takes numbers with commas between");
  };
}

template <typename Enum>
Setter choiceSetter(Enum Options::* field, const std::map<std::string, Enum>& names) {
  return [=](Options& o, const std::string& option, const std::string& text) {
    const auto found = names.find(text);
    if (found != names.end()) {
      o.*field = found->second;
      return;
    }
    std::string choices;
    for (const auto& [name, value] : names) choices += (choices.empty() ? "" : ", ") + name;
    throw UsageError(option + " takes one of " + choices + ", not '" + text + "'");
  };
}

std::map<std::string, Setter> valueSetters() {
  const std::map<std::string, Role> roles{
      {"send", Role::Send}, {"recv", Role::Recv}, {"self", Role::Self}, {"init", Role::Init}, {"listen", Role::Listen}};
  const std::map<std::string, Leave> leaves{{"return", Leave::Return},
                                            {"exit", Leave::Exit},
                                            {"quick", Leave::Quick},
                                            {"abort", Leave::Abort},
                                            {"term", Leave::Term}};
  const auto ms = [](uint64_t Options::* field) { return numberSetter<uint64_t>(field, 0, 3'600'000); };
  const auto seconds = [](uint64_t Options::* field) { return numberSetter<uint64_t>(field, 1, 3600); };
  return {{"--role", choiceSetter(&Options::role, roles)},
          {"--library", textSetter(&Options::library)},
          {"--handle", textSetter(&Options::handle)},
          {"--dev", listSetter(&Options::devices)},
          {"--listen-dev", listSetter(&Options::listenDevices)},
          {"--table", numberSetter(&Options::table, kOldestTable, kNewestTable)},
          {"--rounds", numberSetter(&Options::rounds, 1, 16)},
          {"--contexts", numberSetter(&Options::contexts, 1, 64)},
          {"--bytes", numberSetter<uint64_t>(&Options::bytes, 32, kMostBytes)},
          {"--messages", numberSetter<uint64_t>(&Options::messages, 1, UINT32_MAX)},
          {"--seconds", seconds(&Options::seconds)},
          {"--flight", numberSetter(&Options::flight, 1, kMostFlight)},
          {"--window", numberSetter<uint64_t>(&Options::window, 1, UINT32_MAX)},
          {"--connect-s", seconds(&Options::connectSeconds)},
          {"--give-up-s", seconds(&Options::giveUpSeconds)},
          {"--fork-at", ms(&Options::forkAtMs)},
          {"--child-ms", ms(&Options::childMs)},
          {"--leave", choiceSetter(&Options::leave, leaves)},
          {"--leave-at", ms(&Options::leaveAtMs)},
          {"--exit-code", numberSetter(&Options::exitCode, 0, 255)},
          {"--half-header-at", ms(&Options::halfHeaderAtMs)},
          {"--corrupt", numberSetter<uint64_t>(&Options::corrupt, 0, UINT32_MAX)},
          {"--ask-ms", ms(&Options::askMs)},
          {"--ask-first", numberSetter<uint64_t>(&Options::askFirst, 0, UINT32_MAX)},
          {"--keep-ms", ms(&Options::keepMs)},
          {"--pause-ms", ms(&Options::pauseMs)}};
}

bool setFlag(Options& o, const std::string& word) {
  if (word == "--help") {
    o.help = true;
  } else if (word == "--close" || word == "--no-close") {
    o.close = word == "--close";
  } else if (word == "--close-failed") {
    o.closeFailed = true;
  } else if (word == "--test-thread") {
    o.testThread = true;
  } else if (word == "--vary") {
    o.vary = true;
  } else if (word == "--group") {
    o.group = true;
  } else {
    return false;
  }
  return true;
}

void checkTogether(Options& o) {
  if (o.bytes % 8 != 0) throw UsageError("--bytes takes a multiple of 8");
  if (o.listenDevices.empty()) o.listenDevices = o.devices;
  if (o.listenDevices.size() != o.devices.size()) throw UsageError("--listen-dev names as many devices as --dev");
  if ((o.role == Role::Send || o.role == Role::Recv) && o.handle.empty())
    throw UsageError("--role send and recv need --handle FILE");
  if (o.rounds > 1 && o.role != Role::Self) throw UsageError("--rounds is for --role self");
  if (o.halfHeaderAtMs != kNever && (o.role != Role::Send || o.devices.size() > 1))
    throw UsageError("--half-header-at is for --role send with one connection");
}

}  // namespace

std::string usageText() {
  return R"(usage: net_driver --role ROLE [options]
Plays NCCL on the net's table: init, devices, listen or connect and accept, regMr, isend or irecv, test. JSON lines on stdout.
  --role ROLE          send, recv, self (both in one process), init (nothing else), listen (and nothing else)
  --library FILE       the net library (libr2cc_net.so beside this program)
  --table N            the plugin's table that NCCL of that version takes, 8 to 12 (the socket transport's own)
  --handle FILE        recv leaves its connect handles there, send waits for them
  --dev N,N,...        a connection for each, with that device (0)
  --listen-dev N,...   devices of self's receiving ends (as --dev)
  --contexts N         init so often, as so many ranks of one process do (1)
  --bytes N            of a message (65536)
  --messages N         how many; else for --seconds N (5). The sender tells the receiver
  --vary               between messages of --bytes others of 0, 1, 31 and fewer bytes
  --group              first tries to receive two messages at a time; what comes of it is printed
  --rounds N           of self: all of it so often, in one process (1)
  --flight N           requests on their way at a time (8)
  --window N           messages of an iteration, whose times are printed (16)
  --connect-s N        to be connected (20)
  --give-up-s N        of silence that end the run with code 4 (15)
  --no-close           leave with everything open
  --close-failed       after an error close all the same, as where NCCL's user aborts
  --keep-ms N          close the connections, and the net so much later (0), as where another communicator goes on
  --ask-ms N           a receiver asks for nothing until so long after connecting, but for --ask-first N messages (0)
  --fork-at MS         after the first message; the child waits --child-ms N (0), then calls exit(0)
  --leave-at MS        after the first message (after connecting: 0) end in the middle
  --leave HOW          return, exit, quick (quick_exit), abort, term (SIGTERM)
  --test-thread        a thread goes on testing meanwhile
  --exit-code N        what main returns when all went well (0)
  --half-header-at MS  send 2 of the 4 bytes of a message's header, then nothing for --pause-ms N (1500)
  --corrupt N          self-test: one bit of message N is sent wrong
Exit codes: --exit-code, 1 a message was wrong, 2 usage, 3 the net failed, 4 silence.
)";
}

Options parseOptions(const std::vector<std::string>& words) {
  const std::map<std::string, Setter> setters = valueSetters();
  Options options;
  for (size_t i = 0; i < words.size(); i++) {
    if (setFlag(options, words[i])) continue;
    const auto setter = setters.find(words[i]);
    if (setter == setters.end()) throw UsageError("unknown option '" + words[i] + "'");
    if (i + 1 == words.size()) throw UsageError(words[i] + " needs a value");
    setter->second(options, words[i], words[i + 1]);
    i++;
  }
  if (!options.help) checkTogether(options);
  return options;
}

}  // namespace r2cc::driver
