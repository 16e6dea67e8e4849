#include "bench/switching/tracks.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>

#include "bench/programs/plan_schedule.h"
#include "planner/shapes/cycles.h"

namespace r2cc::bench {
namespace {

constexpr int kMostCycleChannels = 24;  // of all cycles together, as in NCCL
constexpr double kUnknownRateGbit = 1;

Sequence bothWays(const std::vector<int>& cycle) {
  SequenceBuilder builder;
  builder.ring(cycle);
  builder.ring({cycle.rbegin(), cycle.rend()});
  return builder.take();
}

// The same program over edges that there are.
Sequence over(const std::vector<Edge>& edges, Sequence program) {
  std::vector<uint32_t> places;
  for (const Edge& edge : program.edges) {
    const auto same = [&edge](const Edge& other) { return other.from == edge.from && other.to == edge.to; };
    const auto found = std::find_if(edges.begin(), edges.end(), same);
    if (found == edges.end()) throw std::logic_error("a plan's connections are none of those that were made ahead");
    places.push_back(static_cast<uint32_t>(found - edges.begin()));
  }
  for (Transfer& transfer : program.transfers) transfer.edge = places[transfer.edge];
  program.edges = edges;
  return program;
}

double rateOf(const std::vector<RankNics>& ranks, size_t nic) {
  double most = 0;
  for (const RankNics& rank : ranks) most = std::max(most, rank.rates[nic]);
  return most > 0 ? most : kUnknownRateGbit;
}

}  // namespace

std::vector<planner::Node> nodesOf(const std::vector<RankNics>& ranks) {
  std::map<std::string, size_t> places;
  std::vector<planner::Node> nodes;
  for (size_t rank = 0; rank < ranks.size(); rank++) {
    const auto [place, isNew] = places.try_emplace(ranks[rank].host, nodes.size());
    if (isNew) {
      nodes.push_back({ranks[rank].host, {}, {}});
      for (size_t nic = 0; nic < ranks[rank].names.size(); nic++) {
        nodes.back().nics.push_back({ranks[rank].names[nic], rateOf(ranks, nic), ranks[rank].capacities[nic]});
      }
    }
    planner::Node& node = nodes[place->second];
    node.ranks.push_back(static_cast<int>(rank));
    for (size_t nic = 0; nic < node.nics.size(); nic++) {
      node.nics[nic].capacity = std::min(node.nics[nic].capacity, ranks[rank].capacities[nic]);
    }
  }
  return nodes;
}

Tracks::Tracks(const std::vector<planner::Node>& nodes, int channels, int nics) {
  const int hosts = static_cast<int>(nodes.size());
  const int wanted = hosts < 3 ? 0 : std::min(hosts - 1, std::max(1, kMostCycleChannels / channels));
  for (const std::vector<int>& cycle : wanted > 0 ? planner::cycles(hosts, wanted) : std::vector<std::vector<int>>()) {
    cycles_.emplace_back();
    for (const int host : cycle) {
      const std::vector<int>& ranks = nodes[static_cast<size_t>(host)].ranks;
      cycles_.back().insert(cycles_.back().end(), ranks.begin(), ranks.end());
    }
  }
  for (int channel = 0; channel < channels; channel++) homes_.push_back(channel % nics);
  size_t ranks = 0;
  for (const planner::Node& node : nodes) ranks += node.ranks.size();
  std::vector<int> ring(ranks);
  std::iota(ring.begin(), ring.end(), 0);
  for (size_t line = 0; line <= cycles_.size(); line++) {
    for (size_t channel = 0; channel < homes_.size(); channel++) {
      const int home = homes_[channel];
      FlowPlan flow{static_cast<int>(line), static_cast<int>(plans_.size()), {}, {}};
      if (line > 0) flow.turn = planner::turnOf(line - 1, channel, homes_);
      flow.sequence = line == 0 ? ringSequence(ring, {}, sizeof(float)) : bothWays(cycles_[line - 1]);
      flow.nics.assign(flow.sequence.edges.size(), home);
      plans_.push_back(std::move(flow));
    }
  }
}

size_t Tracks::track(int cycle, int channel) const {
  const auto at = static_cast<size_t>(cycle + 1) * homes_.size() + static_cast<size_t>(channel);
  if (cycle < -1 || channel < 0 || static_cast<size_t>(channel) >= homes_.size() || at >= plans_.size()) {
    throw std::logic_error("a plan names a cycle or a channel that there is not");
  }
  return at;
}

std::vector<size_t> Tracks::tracksOf(const planner::Part& part) const {
  const bool ring = part.kind == planner::Kind::Ring;
  if (!ring && (part.kind != planner::Kind::Chain || part.cycle < 0)) {
    throw std::logic_error("a plan's part is neither a ring nor the cut of a cycle");
  }
  std::vector<int> channels = part.homes;
  if (channels.empty()) {
    channels.resize(homes_.size());
    std::iota(channels.begin(), channels.end(), 0);
  }
  std::vector<size_t> tracks;
  tracks.reserve(channels.size());
  for (const int channel : channels) tracks.push_back(track(part.cycle, channel));
  return tracks;
}

std::vector<Sequence> Tracks::programs(const planner::Plan& plan, uint64_t elements, uint32_t chunkBytes) const {
  std::vector<Sequence> programs;
  programs.reserve(plans_.size());
  for (const FlowPlan& flow : plans_) programs.push_back(flow.sequence);
  const std::vector<uint64_t> bounds = planner::bounds(plan, elements);
  uint32_t ofRings = chunkBytes;  // as small as the chunks of the chains beside them: see layout.cc
  for (size_t i = 0; i < plan.parts.size(); i++) {
    const Region first = partOf({bounds[i], bounds[i + 1]}, tracksOf(plan.parts[i]).size(), 0);
    ofRings = std::min(ofRings, chunkOf(plan.parts[i], first, chunkBytes));
  }
  for (size_t i = 0; i < plan.parts.size(); i++) {
    planner::Part part = plan.parts[i];
    const std::vector<size_t> tracks = tracksOf(part);
    if (part.kind == planner::Kind::Ring && part.cycle < 0) {  // one is connected, whatever the order
      part.order.clear();
      for (const Edge& edge : plans_.front().sequence.edges) part.order.push_back(edge.from);
    }
    for (size_t at = 0; at < tracks.size(); at++) {
      Sequence& program = programs[tracks[at]];
      if (!program.transfers.empty()) throw std::logic_error("two parts of a plan on one connection");
      const Region region = partOf({bounds[i], bounds[i + 1]}, tracks.size(), at);
      const uint32_t chunk = part.kind == planner::Kind::Ring ? ofRings : chunkBytes;
      program = over(plans_[tracks[at]].sequence.edges, partSequence(part, region, chunk));
    }
  }
  return programs;
}

}  // namespace r2cc::bench
