// Questions and answers as JSON. A request has one `kind`: collective (many states of one question), hit or program
// (the bench's, on one state).
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <utility>

#include "base/json_reader.h"
#include "base/json_text.h"
#include "sim/hit.h"
#include "sim/programs.h"
#include "sim/sim.h"

namespace r2cc::sim {
namespace {

using planner::PlanError;

constexpr int kSchema = 1;
constexpr int kMostHosts = 16384;
constexpr int kMostNics = 64;
constexpr int64_t kMostBytes = int64_t{1} << 62;

/// Every mistake, then all of them at once.
class Problems {
 public:
  void add(const std::string& what) { text_ += (text_.empty() ? "" : "\n") + what; }
  void range(double value, double least, double most, const std::string& what) {
    if (value >= least && value <= most) return;
    std::array<char, 96> text{};
    std::snprintf(text.data(), text.size(), " must be %g to %g, not %g", least, most, value);
    add(what + text.data());
  }
  void raise() const {
    if (!text_.empty()) throw PlanError(text_, "see docs/internals/simulation-model.md");
  }

 private:
  std::string text_;
};

/// Of an object, what is there; each key by its name.
class Reader {
 public:
  Reader(const Json& json, Problems& problems) : json_(json), problems_(problems) {}
  Reader& number(const char* key, double& value, double least, double most) {
    if (const Json* found = json_.find(key)) value = found->number(key);
    return problems_.range(value, least, most, key), *this;
  }
  Reader& integer(const char* key, int& value, int least, int most) {
    double read = value;
    if (const Json* found = json_.find(key)) read = found->number(key);
    problems_.range(read, least, most, key);
    if (read != std::floor(read)) problems_.add(std::string(key) + " must be a whole number");
    if (std::abs(read) < 1e9) value = static_cast<int>(read);
    return *this;
  }
  Reader& boolean(const char* key, bool& value) {
    if (const Json* found = json_.find(key)) value = found->boolean(key);
    return *this;
  }
  /// null: never.
  Reader& span(const char* key, double& value) {
    const Json* found = json_.find(key);
    if (found == nullptr) return *this;
    value = found->type() == Json::Type::Null ? kNever : found->number(key);
    if (!(value >= 0)) problems_.add(std::string(key) + " must not be negative");
    return *this;
  }

 private:
  const Json& json_;
  Problems& problems_;
};

Topology topologyFrom(const Json& json, Problems& problems) {
  json.allow(
      {"hosts", "nics", "ports", "rate_gbit", "nvlink_GBps", "rail", "pod", "oversubscription", "spine", "backups"});
  Topology out;
  Reader(json, problems)
      .integer("hosts", out.hosts, 1, 65536)
      .integer("nics", out.nics, 1, kMostNics)
      .integer("ports", out.ports, 1, 2)
      .number("rate_gbit", out.rateGbit, 1e-6, 1e6)
      .number("nvlink_GBps", out.nvlinkGBps, 1e-6, 1e9)
      .boolean("rail", out.rail)
      .integer("pod", out.pod, 0, 65536)
      .number("oversubscription", out.oversubscription, 1, 1e6)
      .boolean("spine", out.spine)
      .integer("backups", out.backups, 1, kMostNics);
  return out;
}

planner::Cost costFrom(const Json& json, Problems& problems) {
  json.allow({"hop_us", "local_hop_us", "chunk_bytes", "ring_efficiency", "chain_efficiency", "staged_efficiency",
              "margin", "even_rails"});
  planner::Cost out;
  double chunk = static_cast<double>(out.chunkBytes);
  int even = out.evenRails ? 1 : 0;
  Reader(json, problems)
      .number("hop_us", out.hopUs, 0, 1e9)
      .number("local_hop_us", out.localHopUs, 0, 1e9)
      .number("chunk_bytes", chunk, 1, 1e12)
      .number("ring_efficiency", out.ringEfficiency, 0.01, 1)
      .number("chain_efficiency", out.chainEfficiency, 0.01, 1)
      .number("staged_efficiency", out.stagedEfficiency, 0.01, 1)
      .number("margin", out.margin, 0, 1)
      .integer("even_rails", even, 0, 1);
  out.chunkBytes = static_cast<uint64_t>(std::max(1.0, chunk));
  out.evenRails = even == 1;
  return out;
}

Question questionFrom(const Json& json, Problems& problems) {
  Question out;
  out.topology = topologyFrom(json.at("topology"), problems);
  if (const Json* cost = json.find("cost")) out.cost = costFrom(*cost, problems);
  if (const Json* op = json.find("op")) out.op = op->string("op");
  out.bytes = static_cast<uint64_t>(json.at("bytes").integer("bytes", 0, kMostBytes));
  out.arm = json.at("arm").string("arm");
  if (armOf(out.arm) == nullptr) problems.add("there is no arm " + out.arm + ": there are " + armNames());
  Reader(json, problems)
      .integer("ranks_per_node", out.ranksPerNode, 1, 64)
      .integer("groups", out.groups, 1, 1024)
      .integer("channels", out.channels, 0, 1024)
      .integer("pieces", out.pieces, 0, 1 << 20);
  return out;
}

Left leftFrom(const Json& json, const Topology& topology, Problems& problems) {
  Left out;
  for (const Json& nic : json.array("left")) {
    out.push_back(nic.number("left"));
    problems.range(out.back(), 0, 1, "what is left of a NIC");
  }
  if (static_cast<int>(out.size()) != topology.nics) {
    problems.add("a host has " + std::to_string(out.size()) + " NICs and not the topology's " +
                 std::to_string(topology.nics));
    out.resize(static_cast<size_t>(topology.nics));
  }
  return out;
}

State stateFrom(const Json& json, const Topology& topology, Problems& problems) {
  json.allow({"hosts", "left", "fabric"});
  State out;
  Reader(json, problems).integer("hosts", out.hosts, 1, kMostHosts).number("fabric", out.fabric, 0, 1);
  if (out.hosts > topology.hosts) problems.add("more hosts take part than the topology has");
  const Json* left = json.find("left");
  if (left == nullptr) return out;
  for (const Json& each : left->array("left")) {
    const std::vector<Json>& pair = each.array("left");
    if (pair.size() != 2) throw JsonError(each.line(), "left must have pairs of a host and what is left of its NICs");
    const auto host = static_cast<int>(pair[0].integer("host", -kMostHosts, kMostHosts));
    if (host < 0 || host >= out.hosts) {
      problems.add("there is no host " + std::to_string(host));
      continue;
    }
    out.left.emplace_back(host, leftFrom(pair[1], topology, problems));
  }
  return out;
}

std::string numberText(double value) {
  if (!std::isfinite(value)) return "null";
  std::array<char, 32> digits{};
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr};
}

void append(std::string& out, const std::vector<double>& values) {
  out += '[';
  for (size_t i = 0; i < values.size(); i++) out += (i > 0 ? "," : "") + numberText(values[i]);
  out += ']';
}

void append(std::string& out, const std::vector<std::vector<double>>& rows) {
  out += '[';
  for (size_t i = 0; i < rows.size(); i++) {
    if (i > 0) out += ',';
    append(out, rows[i]);
  }
  out += ']';
}

/// null: it stands still.
std::string collective(const Json& json) {
  json.allow({"schema", "kind", "topology", "cost", "op", "bytes", "arm", "ranks_per_node", "groups", "channels",
              "pieces", "states", "nic_bytes"});
  Problems problems;
  const Question question = questionFrom(json, problems);
  bool withBytes = false;
  Reader(json, problems).boolean("nic_bytes", withBytes);
  std::vector<State> states;
  for (const Json& state : json.at("states").array("states")) {
    states.push_back(stateFrom(state, question.topology, problems));
  }
  problems.raise();
  std::map<int, double> healthy;
  std::string out = "{\"schema\":1,\"results\":[";
  for (size_t i = 0; i < states.size(); i++) {
    const auto known = healthy.find(states[i].hosts);
    const double whole = known != healthy.end() ? known->second : healthyUs(question, states[i].hosts);
    healthy.emplace(states[i].hosts, whole);
    const Answer answer = solve(question, states[i], withBytes);
    out += std::string(i > 0 ? "," : "") + "{\"time_us\":" + numberText(answer.timeUs);
    out += ",\"latency_us\":" + numberText(answer.latencyUs) + ",\"healthy_us\":" + numberText(whole);
    out += ",\"bound_us\":" + numberText(answer.boundUs) + ",\"schedule\":";
    appendJson(out, answer.schedule);
    if (withBytes) {
      append(out += ",\"tx_bytes\":", answer.bytes.out);
      append(out += ",\"rx_bytes\":", answer.bytes.in);
      append(out += ",\"ends_us\":", answer.endsUs);
    }
    out += '}';
  }
  return out + "]}";
}

Fault faultFrom(const Json& json, const Question& question, const State& state, Problems& problems) {
  json.allow({"host", "nic", "at_share", "factor", "duration_us", "cut"});
  Fault out;
  Reader(json, problems)
      .integer("host", out.host, 0, std::max(0, state.hosts - 1))
      .integer("nic", out.nic, 0, question.topology.nics - 1)
      .number("at_share", out.atShare, 0, 1)
      .number("factor", out.factor, 0, 1)
      .span("duration_us", out.durationUs)
      .boolean("cut", out.cut);
  return out;
}

Recovery recoveryFrom(const Json& json, Problems& problems) {
  json.allow({"detect_us", "handshake_us", "replay_bytes", "failback_us", "slow_us", "resume_us", "tolerance_us",
              "failover_us", "exclude_us", "replan_us"});
  Recovery out;
  Reader(json, problems)
      .span("detect_us", out.detectUs)
      .span("handshake_us", out.handshakeUs)
      .number("replay_bytes", out.replayBytes, 0, 1e15)
      .span("failback_us", out.failbackUs)
      .span("slow_us", out.slowUs)
      .span("resume_us", out.resumeUs)
      .span("tolerance_us", out.toleranceUs)
      .span("failover_us", out.failoverUs)
      .span("exclude_us", out.excludeUs)
      .span("replan_us", out.replanUs);
  return out;
}

std::string hitText(const Json& json) {
  json.allow({"schema", "kind", "topology", "cost", "op", "bytes", "arm", "ranks_per_node", "groups", "channels",
              "pieces", "state", "fault", "recovery"});
  Problems problems;
  const Question question = questionFrom(json, problems);
  const State state = stateFrom(json.at("state"), question.topology, problems);
  const Fault fault = faultFrom(json.at("fault"), question, state, problems);
  const Recovery recovery = recoveryFrom(json.at("recovery"), problems);
  problems.raise();
  const HitAnswer found = hit(question, state, fault, recovery);
  std::string out = "{\"schema\":1,\"time_us\":" + numberText(found.timeUs);
  out += ",\"healthy_us\":" + numberText(found.healthyUs) + ",\"stall_us\":" + numberText(found.stallUs);
  out += ",\"replay_bytes\":" + numberText(found.replayBytes);
  out += std::string(",\"completed\":") + (found.completed ? "true" : "false") + ",\"schedule\":";
  appendJson(out, found.schedule);
  return out + "}";
}

std::string programText(const Json& json) {
  json.allow({"schema", "kind", "topology", "cost", "op", "bytes", "arm", "ranks_per_node", "groups", "channels",
              "pieces", "state", "flows", "slots"});
  Problems problems;
  const Question question = questionFrom(json, problems);
  const State state = stateFrom(json.at("state"), question.topology, problems);
  Bed bed;
  Reader(json, problems).integer("flows", bed.flows, 1, 64).integer("slots", bed.slots, 1, 64);
  if (question.op != "allreduce") problems.add("programs are of an allreduce");
  if (question.ranksPerNode > 1 || question.groups > 1) problems.add("programs have one rank a host and one group");
  problems.raise();
  return "{\"schema\":1,\"time_us\":" + numberText(programUs(question, state, bed)) + "}";
}

}  // namespace

std::string answer(std::string_view request) {
  try {
    const Json json = Json::parse(request);
    json.at("schema").integer("schema", kSchema, kSchema);
    const std::string& kind = json.at("kind").string("kind");
    if (kind == "collective") return collective(json);
    if (kind == "hit") return hitText(json);
    if (kind == "program") return programText(json);
    throw JsonError(json.at("kind").line(), "there is no kind " + kind + ": there are collective, hit and program");
  } catch (const JsonError& error) {
    throw PlanError(std::string("the request, line ") + error.what(), "see docs/internals/simulation-model.md");
  }
}

}  // namespace r2cc::sim
