#include "bench/programs/layout.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bench/programs/plan_schedule.h"

namespace r2cc::bench {
namespace {

std::vector<int> allRanks(int ranks) {
  std::vector<int> order(static_cast<size_t>(ranks));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

// One ring over all: what runs where no plan is given.
planner::Plan plainRing(int ranks) {
  planner::Plan plan;
  plan.parts.push_back({planner::Kind::Ring, 1.0, allRanks(ranks)});
  return plan;
}

// What a part's busiest connections carry of the message.
double edgeLoad(const planner::Part& part) {
  const auto n = static_cast<double>(part.order.size());
  if (part.kind == planner::Kind::Chain || part.kind == planner::Kind::Tree) return part.share;
  if (part.kind == planner::Kind::OptCC) return part.share / n;
  return part.share * std::max(2 * (n - 1) / n, 1.0);
}

class Layout {
 public:
  Layout(const Options& options, int nics) : options_(options), nics_(nics) {}

  void allReduce(const planner::Plan& plan) {
    const std::vector<uint64_t> bounds = planner::bounds(plan, options_.bytes / sizeof(float));
    const std::vector<int> channels = channelsOf(plan, options_.channels);
    // A ring beside pipelines takes chunks as small as theirs: with larger ones it always has something to send, they
    // do not, and are left over at the end.
    uint32_t ofRings = options_.chunkBytes;
    const auto regionOf = [&](size_t part) { return Region{bounds[part], bounds[part + 1]}; };
    for (size_t part = 0; part < plan.parts.size(); part++) {
      const Region first = Cut{channels[part], 0, options_.connectionsPerPeer, 0}.of(regionOf(part));
      ofRings = std::min(ofRings, chunkOf(plan.parts[part], first, options_.chunkBytes));
    }
    for (size_t part = 0; part < plan.parts.size(); part++) {
      const planner::Part& what = plan.parts[part];
      const uint32_t chunk = what.kind == planner::Kind::Ring ? ofRings : options_.chunkBytes;
      forEachFlow(static_cast<int>(part), channels[part],
                  [&](const Cut& cut) { return partSequence(what, cut.of(regionOf(part)), chunk); });
    }
  }

  // Everybody sends block(to) of his to everybody so far away.
  template <class Block>
  void exchange(int distance, Block block) {
    forEachFlow(distance - 1, options_.channels, [&](const Cut& cut) {
      Sequence all;
      for (int rank = 0; rank < options_.ranks; rank++) {
        const int to = (rank + distance) % options_.ranks;
        Sequence one = copySequence({rank, to}, cut.of(block(to)), cut.of(block(rank)), options_.chunkBytes);
        for (Transfer& transfer : one.transfers) transfer.edge = static_cast<uint32_t>(all.edges.size());
        all.edges.push_back(one.edges.front());
        all.transfers.insert(all.transfers.end(), one.transfers.begin(), one.transfers.end());
      }
      all.inPlace = false;
      return all;
    });
  }

  std::vector<FlowPlan> take() { return std::move(flows_); }

 private:
  // Share `share` of channel `channel`.
  struct Cut {
    int channels, channel, shares, share;
    Region of(const Region& whole) const {
      const Region mine = partOf(whole, static_cast<uint64_t>(channels), static_cast<uint64_t>(channel));
      return partOf(mine, static_cast<uint64_t>(shares), static_cast<uint64_t>(share));
    }
  };

  template <class Make>
  void forEachFlow(int part, int channels, Make make) {
    const int first = flows_.empty() || !options_.plan ? 0 : flows_.back().channel + 1;
    const int shares = options_.connectionsPerPeer;
    for (int channel = 0; channel < channels; channel++) {
      for (int share = 0; share < shares; share++) {
        FlowPlan flow{part, first + channel, make(Cut{channels, channel, shares, share}), {}};
        flow.nics.assign(flow.sequence.edges.size(), channel % nics_);
        flows_.push_back(std::move(flow));
      }
    }
  }

  const Options& options_;
  int nics_;
  std::vector<FlowPlan> flows_;
};

}  // namespace

std::vector<int> channelsOf(const planner::Plan& plan, int channels) {
  double total = 0, smallest = 1;
  for (const planner::Part& part : plan.parts) {
    total += edgeLoad(part);
    smallest = std::min(smallest, edgeLoad(part));
  }
  const size_t parts = plan.parts.size();
  const size_t fewest = parts * static_cast<size_t>(channels);
  // So many that the part with the least to carry has one, within reason.
  const size_t enough = static_cast<size_t>(std::min(total / std::max(smallest, 1e-9), 4.0 * fewest));
  std::vector<int> best(parts, channels);
  double least = 0;
  for (size_t all = fewest; parts > 1 && all <= std::max(fewest + fewest / 2, enough); all++) {
    std::vector<int> counts;
    double most = 0, sum = 0;  // of what a connection carries; what all do
    for (const planner::Part& part : plan.parts) {
      const double load = edgeLoad(part) / total;
      counts.push_back(std::max(1, static_cast<int>(std::lround(load * static_cast<double>(all)))));
      most = std::max(most, load / counts.back());
      sum += counts.back();
    }
    const double unevenness = most * sum;
    if (least == 0 || unevenness < least - 1e-9) least = unevenness, best = counts;
  }
  return best;
}

std::vector<FlowPlan> flowsOf(const Options& options, int nics) {
  const uint64_t elements = options.bytes / sizeof(float);
  Layout layout(options, nics);
  if (options.op == Op::AllReduce) layout.allReduce(options.plan ? *options.plan : plainRing(options.ranks));
  if (options.op == Op::Stream) layout.exchange(1, [&](int) { return Region{0, elements}; });
  // Every rank's data is cut into one block a rank. Block `me` of a peer lands where the peer's number says.
  const uint64_t block = elements / static_cast<uint64_t>(options.ranks);
  for (int distance = 1; options.op == Op::AllToAll && distance < options.ranks; distance++) {
    layout.exchange(distance, [&](int rank) {
      return Region{static_cast<uint64_t>(rank) * block, (static_cast<uint64_t>(rank) + 1) * block};
    });
  }
  return layout.take();
}

std::vector<uint64_t> bytesOf(const Sequence& sequence) {
  std::vector<uint64_t> bytes(sequence.edges.size());
  for (const Transfer& transfer : sequence.transfers) bytes[transfer.edge] += transfer.bytes;
  return bytes;
}

}  // namespace r2cc::bench
