// Questions and answers as JSON. A request has one `kind`: collective (many states of one question), hit or program
// (the bench's, on one state).
#include <cmath>
#include <map>
#include <utility>

#include "base/json/reader.h"
#include "base/json/text.h"
#include "planner/cost/nccl_table.h"
#include "planner/plan_text.h"
#include "planner/problems.h"
#include "sim/hit.h"
#include "sim/programs.h"
#include "sim/sim.h"

namespace r2cc::sim {
namespace {

using planner::PlanError;
using planner::Problems;

constexpr int kSchema = 1;
constexpr int kMostHosts = 16384;
constexpr int kMostNics = 64;
constexpr int64_t kMostBytes = int64_t{1} << 62;

constexpr const char* kHint = "see docs/internals/simulation-model.md";

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

/// Of a question, `json` may have these as well.
void allowBeside(const Json& json, std::vector<std::string_view> more) {
  for (const char* key : {"schema", "kind", "topology", "cost", "nccl", "op", "bytes", "arm", "ranks_per_node",
                          "groups", "channels", "pieces"}) {
    more.emplace_back(key);
  }
  json.allow(more);
}

Question questionFrom(const Json& json, Problems& problems) {
  Question out;
  out.topology = topologyFrom(json.at("topology"), problems);
  if (const Json* nccl = json.find("nccl")) out.nccl = planner::machineFrom(*nccl);
  if (out.nccl) out.cost = planner::ncclCost(*out.nccl);
  if (const Json* cost = json.find("cost")) out.cost = planner::costFrom(*cost, out.cost);
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

/// null: it stands still.
std::string collective(const Json& json) {
  allowBeside(json, {"states", "nic_bytes"});
  Problems problems(kHint);
  const Question question = questionFrom(json, problems);
  bool withBytes = false;
  Reader(json, problems).boolean("nic_bytes", withBytes);
  std::vector<State> states;
  for (const Json& state : json.at("states").array("states")) {
    states.push_back(stateFrom(state, question.topology, problems));
  }
  problems.raise();
  std::map<int, double> healthy;
  JsonWriter out;
  out.open('{').key("schema").number(kSchema).key("results").open('[');
  for (const State& state : states) {
    const auto [whole, isNew] = healthy.try_emplace(state.hosts, 0);
    if (isNew) whole->second = healthyUs(question, state.hosts);
    const Answer answer = solve(question, state, withBytes);
    out.open('{').key("time_us").number(answer.timeUs).key("latency_us").number(answer.latencyUs);
    out.key("healthy_us").number(whole->second).key("bound_us").number(answer.boundUs);
    out.key("schedule").text(answer.schedule);
    if (withBytes) {
      out.key("tx_bytes").rows(answer.bytes.out).key("rx_bytes").rows(answer.bytes.in);
      out.key("ends_us").numbers(answer.endsUs);
    }
    out.close('}');
  }
  return out.close(']').close('}').out();
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
  allowBeside(json, {"state", "fault", "recovery"});
  Problems problems(kHint);
  const Question question = questionFrom(json, problems);
  const State state = stateFrom(json.at("state"), question.topology, problems);
  const Fault fault = faultFrom(json.at("fault"), question, state, problems);
  const Recovery recovery = recoveryFrom(json.at("recovery"), problems);
  problems.raise();
  const HitAnswer found = hit(question, state, fault, recovery);
  JsonWriter out;
  out.open('{').key("schema").number(kSchema).key("time_us").number(found.timeUs);
  out.key("healthy_us").number(found.healthyUs).key("stall_us").number(found.stallUs);
  out.key("replay_bytes").number(found.replayBytes).key("completed").boolean(found.completed);
  return out.key("schedule").text(found.schedule).close('}').out();
}

std::string programText(const Json& json) {
  allowBeside(json, {"state", "flows", "slots", "burst_bytes"});
  Problems problems(kHint);
  const Question question = questionFrom(json, problems);
  const State state = stateFrom(json.at("state"), question.topology, problems);
  Bed bed;
  Reader(json, problems)
      .integer("flows", bed.flows, 1, 64)
      .integer("slots", bed.slots, 1, 64)
      .integer("burst_bytes", bed.burstBytes, 0, 1 << 30);
  if (question.op != "allreduce") problems.add("programs are of an allreduce");
  if (question.ranksPerNode > 1 || question.groups > 1) problems.add("programs have one rank a host and one group");
  problems.raise();
  JsonWriter out;
  return out.open('{')
      .key("schema")
      .number(kSchema)
      .key("time_us")
      .number(programUs(question, state, bed))
      .close('}')
      .out();
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
    throw PlanError(std::string("the request, line ") + error.what(), kHint);
  }
}

}  // namespace r2cc::sim
