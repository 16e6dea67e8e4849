// The planner: which AllReduce schedule a set of nodes should run, given what is left of each node's bandwidth. Pure:
// no NCCL, no CUDA, no clock, no environment. Equal requests give equal plans on every rank. See
// docs/internals/schedules.md.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace r2cc::planner {

/// A request that cannot be planned. what() names every problem found, one a line; hint() says what to do next.
struct PlanError : std::runtime_error {
  explicit PlanError(const std::string& problem, std::string hint = {})
      : std::runtime_error(problem), hint_(std::move(hint)) {}
  const std::string& hint() const { return hint_; }

 private:
  std::string hint_;
};

/// NICs with the same place in their nodes' lists form a rail (but see Request::planes).
struct Nic {
  std::string name;
  double rateGbit = 0;  // one way, as built
  double capacity = 1;  // what is left of it, 0 (gone) to 1
};

struct Node {
  std::string name;
  std::vector<int> ranks;
  std::vector<Nic> nics;
};

/// What a part does with its share of the message. Orders are lists of ranks.
enum class Kind : uint8_t {
  Ring,       // order: the ring; cycle: it goes along that one; none: as the executor's own ring does
  Chain,      // order: head (root) first, tail last; reduce flows tail to head, the result head to tail, in chunks
  OptCC,      // order: the ring of the healthy ranks; straggler: the rank beside it; mirrored: stages 3 1 4 2
  Published,  // order: the ring of all ranks; straggler or spared; y: share moved to the partial ring; pieces: K
  Tree,    // order: the root first, parents before their children; parents; reduce flows up, the result down, in chunks
  Direct,  // order: all ranks, in no order: each sends to those it has something for
};

/// `Ring` and `Balance` are one ring on balanced paths. `ChainFixed`: one chain with fixed ends, beside a ring. `Tree`:
/// double trees, each as two parts. `Reranked`: rings in other orders than the executor's own. `Direct`: operations
/// that are no ring, on balanced paths.
enum class Schedule : uint8_t { Auto, Ring, Balance, Published, Chain, ChainFixed, OptCC, Tree, Reranked, Direct };

/// The whole operation on a share of the message, on connections of its own, at the same time as the other parts.
struct Part {
  Kind kind = Kind::Ring;
  double share = 1;
  std::vector<int> order;
  int straggler = -1;
  bool mirrored = false;
  double y = 0;
  int pieces = 0;
  int cycle = -1;  // of a chain or ring along one of the request's cycles: which; of a tree: whose channels
  /// Of a published part that spares more than the straggler: each spared node's ranks, the straggler's first.
  std::vector<std::vector<int>> spared = {};  // NOLINT(readability-redundant-member-init): parts are made without them
  /// On a cycle's channels, where the request has homes: those (by place) that it lies on, with the same on each.
  std::vector<int> homes = {};  // NOLINT(readability-redundant-member-init): parts are made without them
  /// Of a tree: the place of each rank's parent in `order`; of the root -1.
  std::vector<int> parents = {};  // NOLINT(readability-redundant-member-init): parts are made without them
};

/// The alpha-beta model's parameters. Defaults are what the lab measured (docs/internals/schedules.md); those of
/// another place take theirs.
struct Cost {
  double hopUs = 200;              // from one rank to the next on another node: everything but bytes / bandwidth
  double localHopUs = 2;           // the same between two ranks of a node
  uint64_t chunkBytes = 32 << 10;  // what a chain hands on at a time
  /// Every connection spreads over the rails that both its ends have left, whatever the node's others do: what the
  /// resilient net does. false: connections make room for each other on a node's rails.
  bool evenRails = true;
  double ringEfficiency = 0.99;  // reached share of the NICs' bandwidth, (0, 1]
  double chainEfficiency = 0.984;
  double stagedEfficiency = 0.982;  // of OptCC and the published schedule
  double margin = 0.02;             // a special schedule is taken only if it is faster by more than this share
  // Of chains alone: what NCCL's kernels add.
  double baseUs = 0;            // once a collective
  uint64_t mostChunkBytes = 0;  // chunks grow to this, as long as a part has 32 for each hop; 0: they are chunkBytes
  double channelGBps = 0;       // of the message, through one channel (one block of threads); 0: any number
  double localGBps = 0;         // from one rank of a node to the next, all channels; 0: any number
  // Of the thread with which a rank moves what goes over the network, each way. It has nothing to do with NICs.
  double rankGBps = 0;     // 0: any number
  double rankChunkUs = 0;  // and for each chunk that chains and trees, or rings beside them, hand on
};

constexpr int kLargestPower = 46;  // sizes are looked at up to 64 TiB

/// How bytes flow in one of NCCL's algorithms: round the ring, along its double tree, or each node's once out and in.
enum class Flow : uint8_t { Ring, Tree, Direct };

/// One way in which NCCL could run the request on balanced paths.
struct Rival {
  std::string name;  // algorithm/protocol
  Flow flow = Flow::Ring;
  double wire = 1;         // bytes that are sent for each of the message's
  double latencyUs = 0;    // whatever the size
  std::vector<double> us;  // on whole NICs, at 2^0, 2^1, ... bytes; none: not known, bandwidth alone counts
  /// The same as it was measured (AlgorithmCost): `us` is then only what NCCL chooses by. None: `us`.
  std::vector<double> takes = {};  // NOLINT(readability-redundant-member-init): rivals are made without them
  double efficiency = 1;           // of what bandwidth allows
  std::vector<int> slots =
      {};  // of trees: nodes by slot; none: in their order  NOLINT(readability-redundant-member-init)
};

/// The same as it turns out: on whole NICs, and on those that are left.
struct Baseline {
  std::string name;
  double healthyUs = 0, balancedUs = 0;
  std::optional<uint64_t> beatenFrom;  // bytes from which on the special schedule is faster by the margin
};

/// What one of NCCL's algorithms was measured to take: NCCL chooses by its own table, whatever this says. Of protocol
/// Simple; hops of the others are longer or shorter in the same proportion. Below 0: as NCCL's table has it.
struct AlgorithmCost {
  double baseUs = -1;      // once a collective
  double hopUs = -1;       // between nodes
  double localHopUs = -1;  // inside a node
  double efficiency = 1;   // share of the bandwidth that the table has, (0, 2]
};

/// What NCCL runs on, for its table of costs (cost/nccl_table.h).
enum class Gpu : uint8_t { Volta, Ampere, Hopper, Blackwell };
struct NcclMachine {
  Gpu gpu = Gpu::Hopper;
  bool nvlink = true;  // between the GPUs of a node; false: PCI
  bool nvls = true;    // NVLink SHARP: NVLSTree comes into question
  int channels = 8;
  double localGBps = 360;  // inside a node, of all channels
  AlgorithmCost ring, tree, nvlsTree;
};

struct Request {
  std::vector<Node> nodes;
  std::string op = "allreduce";
  std::string datatype = "float32";
  std::string reduction = "sum";
  uint64_t bytes = 0;
  int channels = 0;  // parts at most; 0: 1024
  /// Orders of all ranks, nodes whole. Where there are any, only what they are connected for comes into question: a
  /// ring in the order of `nodes`, rings along cycles, and chains, which are cycles cut between two nodes.
  std::vector<std::vector<int>> cycles;
  bool inTurn = true;    // a plan may count on it (Plan)
  bool rewired = false;  // the channels of cycles can be connected otherwise, too: trees can lie on them
  /// NIC i of a node is in plane i modulo this; NICs of one plane reach each other, and no others. 1: a fabric with a
  /// spine. 0: every place in the lists of NICs is a rail by itself.
  int planes = 0;
  /// Of the channels that a chain can lie on: places in the nodes' lists of NICs. Where they leave NICs out, those are
  /// taken to serve requests like this one at the same time: it has its part of what all NICs of a node have left.
  std::vector<int> homes;
  Schedule schedule = Schedule::Auto;
  Cost cost;
  /// What NCCL could run instead. It takes what its table has as the fastest on whole NICs; a special schedule must be
  /// faster than that by the margin. None: a ring is all that there is. Of three nodes and more, and of an operation
  /// that has special schedules.
  std::vector<Rival> rivals;
  std::optional<NcclMachine> nccl;  // rivals as this machine's table has them
};

struct NodePlan {
  std::string name;
  double rateGbit = 0;  // what is left of it
  double txBytes = 0;   // through its NICs
  double rxBytes = 0;
};

/// A schedule that was looked at. Without a predicted time it cannot run here: the note says why.
struct Candidate {
  Schedule schedule = Schedule::Ring;
  std::optional<double> predictedUs;
  std::string note;
};

struct Plan {
  Schedule schedule = Schedule::Ring;
  std::string op = "allreduce";
  uint64_t bytes = 0;
  std::vector<Part> parts;
  /// Where the home of one of its channels is gone: that goes over one of the NICs that are left, in turn (turnOf), not
  /// over all of them.
  bool inTurn = false;
  double predictedUs = 0;
  double latencyUs = 0;                    // of which hops, and pipelines that fill; not part of the text
  double boundUs = 0;                      // no schedule is faster; bandwidth alone
  double healthyUs = 0;                    // with every NIC whole: what NCCL chooses; without rivals a ring
  std::optional<uint64_t> thresholdBytes;  // from this size up the special schedule pays; none: at no size
  std::vector<NodePlan> nodes;
  std::vector<Candidate> candidates;
  std::vector<Baseline> baselines;  // of the request's rivals
  std::string ncclRuns;             // which of them NCCL would choose at this size; empty without any
  std::string why;
};

/// Throws PlanError for bad input. What the special schedules cannot do is a ring, and `why` says so.
Plan plan(const Request& request);
/// The same; where nothing can be planned (a node without a NIC that works) one ring, and `why` says why.
Plan planOrRing(const Request& request);

/// Which elements of `count` are whose: part k has [bounds[k], bounds[k + 1]). Monotone, from 0 to count; the inner
/// ones are multiples of `granule`.
std::vector<uint64_t> bounds(const Plan& plan, uint64_t count, uint64_t granule = 1);

/// What a file of costs has (harness/schemas/costs.schema.json): the same for planner, NCCL and simulator.
struct Costs {
  std::string name;
  std::optional<NcclMachine> nccl;
  Cost cost;  // NCCL's of this machine, or the lab's, with what the file says otherwise
};

/// Throw PlanError, which names the line, for text that is not a request, a plan or costs (schema 1).
Request requestFromJson(std::string_view text);
Plan planFromJson(std::string_view text);
Costs costsFromJson(std::string_view text);
std::string toJson(const Plan& plan);

/// The words of requests and plans.
const char* name(Schedule schedule);
const char* name(Kind kind);

}  // namespace r2cc::planner

extern "C" {
/// 0: *out is the plan. 2: bad input, *out is {"error": .., "hint": ..}. Both are JSON that r2cc_plan_free takes back.
int r2cc_plan(const char* request_json, char** out_json);
void r2cc_plan_free(char* text);
}
