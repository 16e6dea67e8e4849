#include "sim/programs.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <string>

#include "bench/programs/placement.h"
#include "bench/programs/weave.h"

namespace r2cc::sim {
namespace {

constexpr uint32_t kPacket = 9000;  // the lab's MTU

class Programs {
 public:
  Programs(const std::vector<bench::FlowPlan>& flows, const ProgramNet& net) : net_(net) {
    hosts_ = net.bytesPerUs.size() / static_cast<size_t>(net.nics);
    for (const double rate : net.bytesPerUs) freeAt_.insert(freeAt_.end(), 2, -net.burstBytes / rate);
    lanes_.resize(freeAt_.size());
    flows_.resize(flows.size());
    for (size_t i = 0; i < flows.size(); i++) add(flows[i], i);
  }

  double run() {
    for (size_t flow = 0; flow < flows_.size(); flow++) {
      for (size_t host = 0; host < hosts_; host++) goOn(flow, host);
    }
    while (!next_.empty()) {
      const Event event = take();
      now_ = event.at;
      Connection& each = connections_[event.connection];
      if (event.kind == Event::Arrived) {
        each.arrived++;
        goOn(each.flow, each.to);
      } else {
        receive(each.ingress, event);
      }
    }
    const bool over = std::all_of(connections_.begin(), connections_.end(), [this](const Connection& each) {
      return each.done == ends(each.flow, each.to)[each.inEnd].messages.size();
    });
    return over ? now_ : kNever;
  }

 private:
  struct Connection {
    size_t flow, from, to, outEnd, inEnd;
    size_t egress, ingress;  // directions of NICs
    uint64_t posted = 0, arrived = 0, done = 0;
  };
  struct Rank {
    std::vector<bench::End> ends;
    std::vector<uint64_t> done;          // messages that are over, by end
    std::vector<uint32_t> sends, takes;  // connections
  };
  struct Event {
    double at = 0;
    uint64_t order = 0;
    uint32_t connection = 0;
    uint32_t bytes = 0;  // of a packet that has left its sender's NIC
    enum Kind : uint8_t { Left, LeftLast, Arrived } kind = Left;
  };
  /// What a NIC passes on, in the order in which it does so: only the first is looked at.
  struct Lane {
    std::vector<Event> events;
    size_t first = 0;
  };
  struct Next {
    double at = 0;
    uint64_t order = 0;
    size_t lane = 0;
    bool operator>(const Next& other) const { return at != other.at ? at > other.at : order > other.order; }
  };

  const std::vector<bench::End>& ends(size_t flow, size_t host) const { return flows_[flow][host].ends; }

  void add(const bench::FlowPlan& plan, size_t number) {
    std::vector<Rank>& ranks = flows_[number];
    ranks.resize(hosts_);
    const size_t first = connections_.size();
    for (size_t edge = 0; edge < plan.sequence.edges.size(); edge++) {
      const auto from = static_cast<size_t>(plan.sequence.edges[edge].from);
      const auto to = static_cast<size_t>(plan.sequence.edges[edge].to);
      const auto nic = static_cast<size_t>(plan.nics[edge]);
      const auto nics = static_cast<size_t>(net_.nics);
      connections_.push_back({number, from, to, 0, 0, 2 * (from * nics + nic), 2 * (to * nics + nic) + 1});
    }
    for (size_t host = 0; host < hosts_; host++) {
      Rank& rank = ranks[host];
      rank.ends = bench::weave(plan.sequence, static_cast<int>(host));
      rank.done.assign(rank.ends.size(), 0);
      for (size_t end = 0; end < rank.ends.size(); end++) {
        const auto index = static_cast<uint32_t>(first + rank.ends[end].edge);
        (rank.ends[end].sends ? connections_[index].outEnd : connections_[index].inEnd) = end;
        (rank.ends[end].sends ? rank.sends : rank.takes).push_back(index);
      }
    }
  }

  static bool met(const Rank& rank, const bench::Message& message) {
    return std::all_of(message.needs.begin(), message.needs.end(),
                       [&](const bench::Need& need) { return rank.done[need.end] >= need.count; });
  }

  /// Takes and posts what that host can, and whoever can go on because of it.
  void goOn(size_t flow, size_t host) {
    std::vector<size_t>& waiting = waiting_;
    waiting.assign(1, host);
    while (!waiting.empty()) {
      const size_t now = waiting.back();
      waiting.pop_back();
      Rank& rank = flows_[flow][now];
      for (bool moved = true; moved;) {
        moved = false;
        for (const uint32_t index : rank.takes) moved |= take(flows_[flow], rank, connections_[index], waiting);
      }
      for (const uint32_t index : rank.sends) post(rank, index);
    }
  }

  static bool take(std::vector<Rank>& ranks, Rank& rank, Connection& each, std::vector<size_t>& waiting) {
    const std::vector<bench::Message>& messages = rank.ends[each.inEnd].messages;
    const uint64_t before = each.done;
    while (each.done < each.arrived && met(rank, messages[each.done])) {
      each.done++;
      rank.done[each.inEnd] = ranks[each.from].done[each.outEnd] = each.done;
    }
    if (each.done > before) waiting.push_back(each.from);
    return each.done > before;
  }

  void post(const Rank& rank, uint32_t index) {
    Connection& each = connections_[index];
    const std::vector<bench::Message>& messages = rank.ends[each.outEnd].messages;
    const auto slots = static_cast<uint64_t>(net_.slots);
    while (each.posted < messages.size() && each.posted < each.done + slots && met(rank, messages[each.posted])) {
      send(each.egress, index, messages[each.posted++].bytes);
    }
  }

  /// Behind all that the NIC was given before. A token bucket: what it did not use it may use up at once.
  double passed(size_t way, uint32_t bytes) {
    const double rate = net_.bytesPerUs[way / 2];
    freeAt_[way] = std::max(now_ - net_.burstBytes / rate, freeAt_[way]) + bytes / rate;
    return std::max(now_, freeAt_[way]);
  }

  void add(size_t way, const Event& event) {
    Lane& lane = lanes_[way];
    lane.events.push_back(event);
    if (lane.events.size() == lane.first + 1) next_.push({event.at, event.order, way});
  }

  Event take() {
    const size_t way = next_.top().lane;
    next_.pop();
    Lane& lane = lanes_[way];
    const Event event = lane.events[lane.first++];
    if (lane.first == lane.events.size()) {
      lane.events.clear();
      lane.first = 0;
    } else {
      next_.push({lane.events[lane.first].at, lane.events[lane.first].order, way});
    }
    return event;
  }

  void send(size_t way, uint32_t connection, uint32_t bytes) {
    for (uint32_t left = bytes; left > 0;) {
      const uint32_t packet = std::min(left, kPacket);
      left -= packet;
      add(way, {passed(way, packet), order_++, connection, packet, left > 0 ? Event::Left : Event::LeftLast});
    }
  }

  void receive(size_t way, const Event& packet) {
    const double at = passed(way, packet.bytes) + net_.latencyUs;
    if (packet.kind == Event::LeftLast) add(way, {at, order_++, packet.connection, 0, Event::Arrived});
  }

  const ProgramNet& net_;
  size_t hosts_ = 0;
  std::vector<double> freeAt_;            // when its bucket would be full again, less the bucket
  std::vector<std::vector<Rank>> flows_;  // by host
  std::vector<Connection> connections_;
  std::vector<size_t> waiting_;
  std::vector<Lane> lanes_;  // of each direction of a NIC
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next_;
  uint64_t order_ = 0;
  double now_ = 0;
};

bench::RankNics nicsOf(const Hosts& hosts, int host) {
  bench::RankNics out;
  out.host = std::to_string(host);
  out.capacities = hosts.left(host);
  return out;
}

}  // namespace

double runPrograms(const std::vector<bench::FlowPlan>& flows, const ProgramNet& net) {
  return Programs(flows, net).run();
}

double programUs(const Question& question, const State& state, const Bed& bed) {
  const Running running(question, state);
  if (!running.possible()) return kNever;
  bench::Options options;
  options.rank = 0;
  options.ranks = state.hosts;
  options.bytes = question.bytes;
  options.channels = bed.flows;
  options.plan = running.plan();
  std::vector<bench::FlowPlan> flows = bench::flowsOf(options, question.topology.nics);
  std::vector<bench::RankNics> nics;
  ProgramNet net{question.topology.nics, {}, question.cost.hopUs, bed.slots, static_cast<double>(bed.burstBytes)};
  for (int host = 0; host < state.hosts; host++) {
    nics.push_back(nicsOf(running.hosts(), host));
    for (const double left : nics.back().capacities) {
      net.bytesPerUs.push_back(left * question.topology.rateGbit * 125 * question.cost.ringEfficiency);
    }
  }
  bench::placeNics(flows, nics, false);
  for (const bench::FlowPlan& flow : flows) {
    for (size_t edge = 0; edge < flow.nics.size(); edge++) {
      for (const int host : {flow.sequence.edges[edge].from, flow.sequence.edges[edge].to}) {
        if (nics[static_cast<size_t>(host)].capacities[static_cast<size_t>(flow.nics[edge])] <= 0) return kNever;
      }
    }
  }
  return runPrograms(flows, net);
}

}  // namespace r2cc::sim
