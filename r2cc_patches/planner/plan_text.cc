// Requests and plans as JSON (harness/schemas/plan_request.schema.json and plan.schema.json).
#include "planner/plan_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/json/text.h"
#include "planner/check_request.h"
#include "planner/cost/nccl_table.h"

namespace r2cc::planner {
namespace {

constexpr int kSchema = 1;
constexpr int64_t kMostBytes = int64_t{1} << 62;
constexpr int64_t kMostRank = 1 << 20;
constexpr std::array<std::pair<Schedule, const char*>, 10> kSchedules{{{Schedule::Auto, "auto"},
                                                                       {Schedule::Ring, "ring"},
                                                                       {Schedule::Balance, "balance"},
                                                                       {Schedule::Published, "published"},
                                                                       {Schedule::Chain, "chain"},
                                                                       {Schedule::ChainFixed, "chain_fixed"},
                                                                       {Schedule::OptCC, "optcc"},
                                                                       {Schedule::Tree, "tree"},
                                                                       {Schedule::Reranked, "reranked"},
                                                                       {Schedule::Direct, "direct"}}};
constexpr std::array<std::pair<Gpu, const char*>, 4> kGpus{
    {{Gpu::Volta, "volta"}, {Gpu::Ampere, "ampere"}, {Gpu::Hopper, "hopper"}, {Gpu::Blackwell, "blackwell"}}};
constexpr int64_t kMostNcclChannels = 64, kMostPlanes = 64;
constexpr size_t kFewestNcclChannels = 2;  // where nodes have fewer NICs
constexpr std::array<std::pair<Kind, const char*>, 6> kKinds{{{Kind::Ring, "ring"},
                                                              {Kind::Chain, "chain"},
                                                              {Kind::OptCC, "optcc"},
                                                              {Kind::Published, "published"},
                                                              {Kind::Tree, "tree"},
                                                              {Kind::Direct, "direct"}}};

template <typename Table>
auto valueOf(const Table& table, const Json& json, const std::string& what) {
  const std::string& word = json.string(what);
  std::string known;
  for (const auto& [value, text] : table) {
    if (word == text) return value;
    known += (known.empty() ? "" : ", ") + std::string(text);
  }
  throw JsonError(json.line(), "there is no " + what + " \"" + word + "\": there are " + known);
}

template <typename Table, typename Value>
const char* textOf(const Table& table, Value wanted) {
  for (const auto& [value, text] : table) {
    if (value == wanted) return text;
  }
  return "?";
}

void checkSchema(const Json& json) { json.at("schema").integer("schema", kSchema, kSchema); }

std::vector<int> ranksFrom(const Json& json, const std::string& what) {
  std::vector<int> out;
  for (const Json& rank : json.array(what)) out.push_back(static_cast<int>(rank.integer(what, 0, kMostRank)));
  return out;
}

void take(const Json& json, const char* key, double& value) {
  if (const Json* found = json.find(key)) value = found->number(key);
}

void take(const Json& json, const char* key, std::string& value) {
  if (const Json* found = json.find(key)) value = found->string(key);
}

Node nodeFrom(const Json& json) {
  json.allow({"name", "ranks", "nics"});
  Node node{json.at("name").string("name"), ranksFrom(json.at("ranks"), "ranks"), {}};
  for (const Json& each : json.at("nics").array("nics")) {
    each.allow({"name", "rate_gbit", "capacity"});
    Nic nic{each.at("name").string("name"), each.at("rate_gbit").number("rate_gbit")};
    take(each, "capacity", nic.capacity);
    node.nics.push_back(std::move(nic));
  }
  return node;
}

void take(const Json& json, const char* key, AlgorithmCost& cost) {
  const Json* found = json.find(key);
  if (found == nullptr) return;
  found->allow({"base_us", "hop_us", "local_hop_us", "efficiency"});
  take(*found, "base_us", cost.baseUs);
  take(*found, "hop_us", cost.hopUs);
  take(*found, "local_hop_us", cost.localHopUs);
  take(*found, "efficiency", cost.efficiency);
}

}  // namespace

NcclMachine machineFrom(const Json& json) {
  json.allow({"gpu", "nvlink", "nvls", "channels", "local_GBps", "ring", "tree", "nvls_tree"});
  NcclMachine machine;
  machine.channels = 0;
  if (const Json* gpu = json.find("gpu")) machine.gpu = valueOf(kGpus, *gpu, "gpu");
  if (const Json* nvlink = json.find("nvlink")) machine.nvlink = nvlink->integer("nvlink", 0, 1) == 1;
  if (const Json* nvls = json.find("nvls")) machine.nvls = nvls->integer("nvls", 0, 1) == 1;
  if (const Json* found = json.find("channels"))
    machine.channels = static_cast<int>(found->integer("channels", 0, kMostNcclChannels));
  take(json, "local_GBps", machine.localGBps);
  take(json, "ring", machine.ring);
  take(json, "tree", machine.tree);
  take(json, "nvls_tree", machine.nvlsTree);
  return machine;
}

namespace {

/// Who has the rest of a file of costs: title, rows that it was fitted to, where values are from. It is for people.
Costs costs(const Json& json) {
  json.allow({"schema", "name", "title", "cost", "nccl", "sources", "fitted"});
  checkSchema(json);
  Costs out;
  out.name = json.at("name").string("name");
  if (const Json* nccl = json.find("nccl")) out.nccl = machineFrom(*nccl);
  if (out.nccl) out.cost = ncclCost(*out.nccl);
  if (const Json* cost = json.find("cost")) out.cost = costFrom(*cost, out.cost);
  check(out);
  return out;
}

Request request(const Json& json) {
  json.allow({"schema", "nodes", "op", "bytes", "datatype", "reduction", "channels", "cycles", "rewired", "homes",
              "planes", "schedule", "nccl", "cost"});
  checkSchema(json);
  Request out;
  for (const Json& node : json.at("nodes").array("nodes")) out.nodes.push_back(nodeFrom(node));
  out.bytes = static_cast<uint64_t>(json.at("bytes").integer("bytes", 0, kMostBytes));
  take(json, "op", out.op);
  take(json, "datatype", out.datatype);
  take(json, "reduction", out.reduction);
  if (const Json* channels = json.find("channels")) {
    out.channels = static_cast<int>(channels->integer("channels", 0, std::numeric_limits<int>::max()));
  }
  if (const Json* cycles = json.find("cycles")) {
    for (const Json& cycle : cycles->array("cycles")) out.cycles.push_back(ranksFrom(cycle, "cycles"));
  }
  if (const Json* rewired = json.find("rewired")) out.rewired = rewired->boolean("rewired");
  if (const Json* homes = json.find("homes")) out.homes = ranksFrom(*homes, "homes");
  if (const Json* planes = json.find("planes"))
    out.planes = static_cast<int>(planes->integer("planes", 0, kMostPlanes));
  if (const Json* schedule = json.find("schedule")) out.schedule = valueOf(kSchedules, *schedule, "schedule");
  if (out.schedule == Schedule::Direct)
    throw PlanError("there is no schedule \"direct\" to ask for", "leave it out: an alltoall has no other");
  if (const Json* nccl = json.find("nccl")) out.nccl = machineFrom(*nccl);
  if (out.nccl) {
    size_t nics = kFewestNcclChannels;
    for (const Node& node : out.nodes) nics = std::max(nics, node.nics.size());
    if (out.nccl->channels == 0) out.nccl->channels = static_cast<int>(nics);
    out.cost = ncclCost(*out.nccl);
    if (out.homes.empty()) out.cost.channelGBps *= out.nccl->channels;  // a chain lies on all of them
  }
  if (const Json* cost = json.find("cost")) out.cost = costFrom(*cost, out.cost);
  return out;
}

void write(JsonWriter& to, const Part& part) {
  to.open('{').key("kind").text(name(part.kind)).key("share").number(part.share).key("order").numbers(part.order);
  if (part.straggler >= 0) to.key("straggler").number(part.straggler);
  if (part.cycle >= 0) to.key("cycle").number(part.cycle);
  if (!part.homes.empty()) to.key("homes").numbers(part.homes);
  if (!part.parents.empty()) to.key("parents").numbers(part.parents);
  if (part.kind == Kind::OptCC) to.key("mirrored").boolean(part.mirrored);
  if (!part.spared.empty()) to.key("spared").rows(part.spared);
  if (part.kind == Kind::Published) to.key("y").number(part.y).key("pieces").number(part.pieces);
  to.close('}');
}

void write(JsonWriter& to, const NodePlan& node) {
  to.open('{').key("name").text(node.name).key("rate_gbit").number(node.rateGbit);
  to.key("tx_bytes").number(std::round(node.txBytes)).key("rx_bytes").number(std::round(node.rxBytes)).close('}');
}

void write(JsonWriter& to, const Candidate& candidate) {
  to.open('{').key("schedule").text(name(candidate.schedule)).key("predicted_us");
  candidate.predictedUs ? to.number(*candidate.predictedUs) : to.word("null");
  to.key("note").text(candidate.note).close('}');
}

Part partFrom(const Json& json) {
  json.allow({"kind", "share", "order", "straggler", "mirrored", "y", "pieces", "cycle", "homes", "parents", "spared"});
  Part part;
  part.kind = valueOf(kKinds, json.at("kind"), "kind");
  part.share = json.at("share").number("share");
  part.order = ranksFrom(json.at("order"), "order");
  take(json, "y", part.y);
  if (const Json* found = json.find("straggler")) {
    part.straggler = static_cast<int>(found->integer("straggler", -1, kMostRank));
  }
  if (const Json* found = json.find("cycle")) part.cycle = static_cast<int>(found->integer("cycle", -1, 1 << 20));
  if (const Json* found = json.find("homes")) part.homes = ranksFrom(*found, "homes");
  if (const Json* found = json.find("parents")) {
    for (const Json& place : found->array("parents"))
      part.parents.push_back(static_cast<int>(place.integer("parents", -1, kMostRank)));
  }
  if (const Json* found = json.find("spared")) {
    for (const Json& ranks : found->array("spared")) part.spared.push_back(ranksFrom(ranks, "spared"));
  }
  if (const Json* found = json.find("mirrored")) part.mirrored = found->boolean("mirrored");
  if (const Json* found = json.find("pieces")) part.pieces = static_cast<int>(found->integer("pieces", 0, 1 << 20));
  return part;
}

/// What a plan makes ranks do. What it predicts is for those who read it.
Plan planFrom(const Json& json) {
  json.allow({"schema", "schedule", "op", "bytes", "parts", "in_turn", "predicted_us", "bound_us", "healthy_us",
              "threshold_bytes", "nodes", "candidates", "baselines", "nccl_runs", "why"});
  checkSchema(json);
  Plan out;
  out.schedule = valueOf(kSchedules, json.at("schedule"), "schedule");
  out.op = json.at("op").string("op");
  out.bytes = static_cast<uint64_t>(json.at("bytes").integer("bytes", 0, kMostBytes));
  for (const Json& part : json.at("parts").array("parts")) out.parts.push_back(partFrom(part));
  if (const Json* found = json.find("in_turn")) out.inTurn = found->boolean("in_turn");
  if (const Json& from = json.at("threshold_bytes"); from.type() != Json::Type::Null) {
    out.thresholdBytes = static_cast<uint64_t>(from.integer("threshold_bytes", 0, kMostBytes));
  }
  return out;
}

template <typename Read>
auto reading(const char* what, std::string_view text, const Read& read) {
  try {
    return read(Json::parse(text));
  } catch (const JsonError& error) {
    throw PlanError(std::string("the ") + what + ", line " + error.what(),
                    std::string("see harness/schemas/") + what + ".schema.json");
  }
}

}  // namespace

Cost costFrom(const Json& json, Cost cost) {
  json.allow({"hop_us", "local_hop_us", "chunk_bytes", "ring_efficiency", "chain_efficiency", "staged_efficiency",
              "margin", "even_rails", "base_us", "most_chunk_bytes", "channel_GBps", "local_GBps", "rank_GBps",
              "rank_chunk_us"});
  take(json, "hop_us", cost.hopUs);
  take(json, "local_hop_us", cost.localHopUs);
  take(json, "ring_efficiency", cost.ringEfficiency);
  take(json, "chain_efficiency", cost.chainEfficiency);
  take(json, "staged_efficiency", cost.stagedEfficiency);
  take(json, "margin", cost.margin);
  if (const Json* even = json.find("even_rails")) cost.evenRails = even->integer("even_rails", 0, 1) == 1;
  if (const Json* chunk = json.find("chunk_bytes")) {
    cost.chunkBytes = static_cast<uint64_t>(chunk->integer("chunk_bytes", 1, int64_t{1} << 40));
  }
  take(json, "base_us", cost.baseUs);
  take(json, "channel_GBps", cost.channelGBps);
  take(json, "local_GBps", cost.localGBps);
  take(json, "rank_GBps", cost.rankGBps);
  take(json, "rank_chunk_us", cost.rankChunkUs);
  if (const Json* chunk = json.find("most_chunk_bytes")) {
    cost.mostChunkBytes = static_cast<uint64_t>(chunk->integer("most_chunk_bytes", 0, int64_t{1} << 40));
  }
  return cost;
}

const char* name(Schedule schedule) { return textOf(kSchedules, schedule); }
const char* name(Kind kind) { return textOf(kKinds, kind); }

Request requestFromJson(std::string_view text) { return reading("plan_request", text, request); }
Plan planFromJson(std::string_view text) { return reading("plan", text, planFrom); }
Costs costsFromJson(std::string_view text) { return reading("costs", text, costs); }

std::string toJson(const Plan& plan) {
  JsonWriter to;
  to.open('{').key("schema").number(kSchema).key("op").text(plan.op).key("bytes").number(plan.bytes);
  to.key("schedule").text(name(plan.schedule)).key("parts").open('[');
  for (const Part& part : plan.parts) write(to, part);
  to.close(']');
  if (plan.inTurn) to.key("in_turn").boolean(true);
  to.key("predicted_us").number(plan.predictedUs).key("bound_us").number(plan.boundUs);
  to.key("healthy_us").number(plan.healthyUs).key("threshold_bytes");
  plan.thresholdBytes ? to.number(*plan.thresholdBytes) : to.word("null");
  to.key("nodes").open('[');
  for (const NodePlan& node : plan.nodes) write(to, node);
  to.close(']').key("candidates").open('[');
  for (const Candidate& candidate : plan.candidates) write(to, candidate);
  to.close(']');
  if (!plan.baselines.empty()) {
    to.key("baselines").open('[');
    for (const Baseline& each : plan.baselines) {
      to.open('{').key("name").text(each.name).key("healthy_us").number(each.healthyUs);
      to.key("balanced_us").number(each.balancedUs).key("beaten_from_bytes");
      each.beatenFrom ? to.number(*each.beatenFrom) : to.word("null");
      to.close('}');
    }
    to.close(']');
  }
  if (!plan.ncclRuns.empty()) to.key("nccl_runs").text(plan.ncclRuns);
  return to.key("why").text(plan.why).close('}').out();
}

}  // namespace r2cc::planner
