#include "chain_channels.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "bootstrap.h"
#include "chain_buffers.h"
#include "channel.h"
#include "graph.h"
#include "graph/topo.h"
#include "planner/shapes/cycles.h"
#include "record/r2cc_health.h"
#include "transport.h"

namespace r2cc::schedules {
namespace {

constexpr int kNoTurn = -1;
constexpr int kMostChannels = 24;  // of all cycles together: each costs a connection's buffers in four directions

/// The ranks of each node in the order in which the ring passes them; empty if it does not pass each node in one go.
std::vector<std::vector<int>> nodesAlong(const ncclComm* comm, int ring) {
  const int* ranks = comm->channels[ring].ring.userRanks;
  const auto at = [&](int place) { return ranks[place % comm->nRanks]; };
  int start = 0;
  while (start < comm->nRanks && comm->rankToNode[at(start)] == comm->rankToNode[at(start + comm->nRanks - 1)]) start++;
  std::vector<std::vector<int>> nodes(static_cast<size_t>(comm->nNodes));
  int last = -1;
  for (int place = start; place < start + comm->nRanks; place++) {
    const int node = comm->rankToNode[at(place)];
    std::vector<int>& mine = nodes[static_cast<size_t>(node)];
    if (node != last && !mine.empty()) return {};
    mine.push_back(at(place));
    last = node;
  }
  return nodes;
}

std::vector<int> joined(const std::vector<int>& nodeOrder, const std::vector<std::vector<int>>& inside) {
  std::vector<int> ranks;
  for (const int node : nodeOrder) {
    const std::vector<int>& local = inside[static_cast<size_t>(node)];
    ranks.insert(ranks.end(), local.begin(), local.end());
  }
  return ranks;
}

/// The ring graph's channels by their NICs.
std::vector<int> byHome(const std::vector<int>& homes) {
  std::vector<int> channels(homes.size());
  std::iota(channels.begin(), channels.end(), 0);
  const auto home = [&](int channel) { return homes[static_cast<size_t>(channel)]; };
  std::stable_sort(channels.begin(), channels.end(), [&](int a, int b) { return home(a) < home(b); });
  return channels;
}

/// `graph` with its channels in another order.
ncclTopoGraph reordered(const ncclTopoGraph& graph, const std::vector<int>& channels, int gpus) {
  ncclTopoGraph other = graph;
  for (size_t to = 0; to < channels.size(); to++) {
    const auto from = static_cast<size_t>(channels[to]);
    const auto each = static_cast<size_t>(gpus);
    std::copy_n(graph.intra + from * each, each, other.intra + to * each);
    std::copy_n(graph.inter + 2 * from, 2, other.inter + 2 * to);
  }
  return other;
}

/// The ring along `order`, as the rank at `place` has it. NCCL counts places from the rank itself, and from rank 0.
void setRing(ncclRing& ring, const std::vector<int>& order, size_t place) {
  const size_t size = order.size();
  const auto zero = static_cast<size_t>(std::find(order.begin(), order.end(), 0) - order.begin());
  ring.index = static_cast<int>((place + size - zero) % size);
  for (size_t i = 0; i < size; i++) {
    ring.userRanks[i] = order[(place + i) % size];
    ring.rankToIndex[ring.userRanks[i]] = static_cast<int>(i);
  }
  ring.next = ring.userRanks[1];
  ring.prev = ring.userRanks[size - 1];
}

/// What this thread does meanwhile is no part of a capture, whatever mode that has.
class MayCapture {
 public:
  MayCapture() { exchange(); }
  ~MayCapture() { exchange(); }
  MayCapture(const MayCapture&) = delete;
  MayCapture& operator=(const MayCapture&) = delete;

 private:
  void exchange() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// Tells the net that what is connected meanwhile is there for schedules alone.
class ForSchedules {
 public:
  ForSchedules(const ncclComm* comm, uint64_t window, int turn) : schedule_(comm->commHash), small_(schedule_) {
    r2ccScheduleConnects(1, schedule_, window, turn);
  }
  ~ForSchedules() { r2ccScheduleConnects(-1, schedule_, 0, 0); }
  ForSchedules(const ForSchedules&) = delete;
  ForSchedules& operator=(const ForSchedules&) = delete;

 private:
  const uint64_t schedule_;
  const SmallBuffers small_;
};

/// Ranks of one process say the same at a time: what is connected meanwhile may be another one's.
ncclResult_t waitForNode(const ncclComm* comm) {
  return bootstrapIntraNodeBarrier(comm->bootstrap, comm->localRankToRank, comm->localRank, comm->localRanks,
                                   comm->localRankToRank[0]);
}

}  // namespace

ChainChannels ChainChannels::layOut(const ncclComm* comm, const std::vector<std::vector<int>>& homes,
                                    std::string& reason) {
  ChainChannels made;
  made.perCycle_ = comm->graphs[NCCL_ALGO_RING].nChannels;
  made.rank_ = comm->rank;
  // Beyond what NCCL uses here and, where resources are shared, in the parent and other children: connections are
  // theirs, too. A multiple, so that channel ids choose the same NICs in every cycle (they count modulo the graph's
  // channels).
  const int taken = std::max({comm->nChannels, comm->sharedRes->tpNChannels, comm->nvlsChannels});
  made.base_ = (taken + made.perCycle_ - 1) / made.perCycle_ * made.perCycle_;
  const int room = std::min(kMostChannels, MAXCHANNELS - made.base_) / made.perCycle_;
  const int wanted = std::min(room, comm->nNodes - 1);
  if (wanted < 1) {
    reason = "no channels are left: " + std::to_string(taken) + " of " + std::to_string(MAXCHANNELS);
    return made;
  }
  std::vector<std::vector<std::vector<int>>> rings;  // [channel of the ring graph][node]
  for (int which = 0; which < made.perCycle_; which++) {
    rings.push_back(nodesAlong(comm, which));
    if (!rings.back().empty()) continue;
    reason = "the rings pass a node more than once";
    return made;
  }
  made.insideNodes_.assign(rings.size(), std::vector<std::vector<int>>(homes.size()));
  for (size_t node = 0; node < homes.size(); node++) {
    const std::vector<int> channels = byHome(homes[node]);
    for (size_t which = 0; which < channels.size(); which++) {
      made.insideNodes_[which][node] = rings[static_cast<size_t>(channels[which])][node];
    }
  }
  made.homes_ = homes.front();
  std::sort(made.homes_.begin(), made.homes_.end());
  made.graph_ = reordered(comm->graphs[NCCL_ALGO_RING], byHome(homes[static_cast<size_t>(comm->node)]),
                          comm->topo->nodes[GPU].count);
  made.nodeOrders_ = planner::cycles(comm->nNodes, wanted);
  for (const std::vector<int>& order : made.nodeOrders_) made.cycles_.push_back(joined(order, made.insideNodes_[0]));
  return made;
}

std::vector<int> ChainChannels::along(size_t cycle, int which) const {
  return joined(nodeOrders_[cycle], insideNodes_[static_cast<size_t>(which)]);
}

ncclResult_t ChainChannels::connect(ncclComm* comm, uint64_t window, bool inTurn) {
  window_ = window;
  std::map<int, std::vector<std::pair<size_t, int>>> byTurn;
  for (size_t cycle = 0; cycle < cycles_.size(); cycle++) {
    for (int which = 0; which < perCycle_; which++) {
      const int turn = inTurn ? planner::turnOf(cycle, static_cast<size_t>(which), homes_) : kNoTurn;
      byTurn[turn].emplace_back(cycle, which);
    }
  }
  for (const auto& [turn, channels] : byTurn) {
    for (const auto& [cycle, which] : channels) NCCLCHECK(make(comm, cycle, which));
    NCCLCHECK(waitForNode(comm));
    const ForSchedules forSchedules(comm, window_, turn);
    NCCLCHECK(ncclTransportP2pSetup(comm, &graph_, 0));
  }
  return ncclSuccess;
}

ncclResult_t ChainChannels::make(ncclComm* comm, size_t cycle, int which) const {
  const std::vector<int> order = along(cycle, which);
  const size_t place = static_cast<size_t>(std::find(order.begin(), order.end(), rank_) - order.begin());
  int neighbours[2] = {order[(place + 1) % order.size()], order[(place + order.size() - 1) % order.size()]};
  const int id = channel(cycle, which);
  NCCLCHECK(initChannel(comm, id));
  setRing(comm->channels[id].ring, order, place);
  comm->channels[id].tree = {comm->nNodes, -1, {-1, -1, -1}};
  return ncclTransportP2pConnect(comm, id, 2, neighbours, 2, neighbours, 0);
}

bool ChainChannels::cut(ncclComm* comm, size_t cycle, const std::vector<int>& homes, const std::vector<int>& order,
                        bool backwards) {
  if (cycle >= cycles_.size()) return false;
  std::vector<int> nodes = nodeOrders_[cycle];
  const auto head = std::find(nodes.begin(), nodes.end(), comm->rankToNode[order.front()]);
  std::rotate(nodes.begin(), head, nodes.end());
  if (joined(nodes, insideNodes_[0]) != order) return false;
  for (const int which : homes) {
    const int id = channel(cycle, which);
    std::vector<int> fromHead = nodes;
    if (backwards) std::reverse(fromHead.begin(), fromHead.end());
    if (!lay(id, {planner::Kind::Chain, std::move(fromHead)})) return false;
    const std::vector<int> chain = joined(nodes, insideNodes_[static_cast<size_t>(which)]);
    const size_t place = static_cast<size_t>(std::find(chain.begin(), chain.end(), rank_) - chain.begin());
    ncclTree& tree = comm->channels[id].tree;
    tree.up = place == 0 ? -1 : chain[place - 1];
    tree.down[0] = place + 1 == chain.size() ? -1 : chain[place + 1];
    if (backwards) std::swap(tree.up, tree.down[0]);
    tree.down[1] = tree.down[2] = -1;
  }
  return true;
}

/// A node's first rank has up to two nodes below it and, of several ranks, the next one, which has the next one.
bool ChainChannels::hang(ncclComm* comm, size_t line, const std::vector<int>& homes, const planner::Part& tree) {
  if (line >= cycles_.size()) return false;
  std::vector<int> parents(nodeOrders_[line].size(), -1);
  const auto nodeAt = [&](int place) { return comm->rankToNode[tree.order[static_cast<size_t>(place)]]; };
  for (int place = 1; place < static_cast<int>(tree.order.size()); place++) {
    const int above = nodeAt(tree.parents[static_cast<size_t>(place)]);
    if (above != nodeAt(place)) parents[static_cast<size_t>(nodeAt(place))] = above;
  }
  for (const int which : homes) {
    const int id = channel(line, which);
    if (!lay(id, {planner::Kind::Tree, parents})) return false;
    const std::vector<std::vector<int>>& inside = insideNodes_[static_cast<size_t>(which)];
    const auto head = [&](int node) { return node < 0 ? -1 : inside[static_cast<size_t>(node)].front(); };
    const std::vector<int>& mine = inside[static_cast<size_t>(comm->node)];
    const auto place = static_cast<size_t>(std::find(mine.begin(), mine.end(), rank_) - mine.begin());
    std::vector<int> below;
    for (int node = 0; place == 0 && node < comm->nNodes; node++) {
      if (parents[static_cast<size_t>(node)] == comm->node) below.push_back(head(node));
    }
    if (place + 1 < mine.size()) below.push_back(mine[place + 1]);
    if (below.size() > NCCL_MAX_TREE_ARITY) return false;
    below.resize(NCCL_MAX_TREE_ARITY, -1);
    ncclTree& own = comm->channels[id].tree;
    own.up = place > 0 ? mine[place - 1] : head(parents[static_cast<size_t>(comm->node)]);
    std::copy(below.begin(), below.end(), own.down);
    hung_.insert(id);
  }
  return true;
}

ncclResult_t ChainChannels::connectHung(ncclComm* comm) {
  const MayCapture mayCapture;
  const ForSchedules forSchedules(comm, window_, kNoTurn);
  for (const int id : hung_) {
    ncclTree& tree = comm->channels[id].tree;
    int peers[NCCL_MAX_TREE_ARITY + 1] = {tree.up, tree.down[0], tree.down[1], tree.down[2]};
    constexpr int kPeers = NCCL_MAX_TREE_ARITY + 1;  // -1, and who is connected already, are passed over
    NCCLCHECK(ncclTransportP2pConnect(comm, id, kPeers, peers, kPeers, peers, 0));
  }
  NCCLCHECK(ncclTransportP2pSetup(comm, &graph_, 0));
  hung_.clear();
  return ncclSuccess;
}

/// False: a CUDA graph needs that channel as it is.
bool ChainChannels::lay(int channel, Shape shape) {
  const auto held = held_.find(channel);
  if (held != held_.end() && held->second != shape) return false;
  shapes_[channel] = std::move(shape);
  return true;
}

const ncclTree* ChainChannels::treeNow(const ncclComm* comm, int channel) {
  const int beyond = base_ + static_cast<int>(cycles_.size()) * perCycle_;
  if (channel < base_ || channel >= beyond) return nullptr;
  return versions_.of(channel, comm->channels[channel].tree);
}

void ChainChannels::hold(int channel) { held_[channel] = shapes_.at(channel); }

ncclResult_t ChainChannels::upload(ncclComm* comm) const {
  const MayCapture mayCapture;
  ncclResult_t result = ncclSuccess;
  cudaStream_t stream;
  auto& shared = comm->sharedRes->deviceStream;
  NCCLCHECK(
      ncclStrongStreamAcquire(ncclCudaGraphNone(comm->config.graphUsageMode), &shared, /*concurrent=*/false, &stream));
  auto* device = reinterpret_cast<ncclKernelCommAndChannels*>(comm->devComm);
  for (size_t cycle = 0; cycle < cycles_.size() && result == ncclSuccess; cycle++) {
    for (int which = 0; which < perCycle_ && result == ncclSuccess; which++) {
      const int id = channel(cycle, which);
      result = ncclCudaMemcpyAsync(&device->channels[id].tree, &comm->channels[id].tree, 1, stream);
    }
  }
  const ncclResult_t released =
      ncclStrongStreamRelease(ncclCudaGraphNone(comm->config.graphUsageMode), &shared, /*concurrent=*/false);
  if (result == ncclSuccess) result = released;
  if (result == ncclSuccess && ncclCudaGraphValid(comm->planner.capturingGraph)) {
    CUDACHECK(cudaStreamSynchronize(stream));  // a graph is not in order with this stream
  }
  return result;
}

}  // namespace r2cc::schedules
