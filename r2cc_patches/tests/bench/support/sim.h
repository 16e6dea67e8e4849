// A network in arithmetic: how long a plan's programs take where every NIC serves its connections in turn, a packet at
// a time, and each message needs a while from one program to the next. Nothing is sent; no clock is read.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "bench/programs/layout.h"
#include "bench/programs/weave.h"

namespace r2cc::test {

struct SimNet {
  size_t nics = 1;
  double bytesPerUs = 25;
  double latencyUs = 200;  // from the wire to the program that waits, and on
  uint64_t slots = 8;
  uint64_t quantum = 9000;  // bytes that a connection sends when it is its turn
};

class Sim {
 public:
  Sim(const std::vector<bench::FlowPlan>& flows, size_t ranks, const SimNet& net)
      : net_(net), servers_(2 * ranks * net.nics) {
    for (const bench::FlowPlan& flow : flows) add(flow, ranks);
  }

  // Microseconds until everything is over; negative when it never is.
  double run() {
    for (size_t flow = 0; flow < flows_.size(); flow++) look(flow);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.at;
      event.what();
    }
    for (const Connection& each : connections_) {
      if (each.done < each.out->messages.size()) return -1;
    }
    return now_;
  }

 private:
  struct Connection {
    size_t flow;
    size_t from, to, outEnd, inEnd;  // ranks, and the ends' numbers there
    const bench::End* out;
    const bench::End* in;
    size_t egress, ingress;  // servers
    uint64_t posted = 0, arrived = 0, done = 0;
  };
  struct Flow {
    std::vector<std::vector<bench::End>> ends;  // by rank
    std::vector<std::vector<uint64_t>> done;    // by rank and end
    std::vector<size_t> connections;
  };
  struct Event {
    double at;
    uint64_t order;
    std::function<void()> what;
    bool operator>(const Event& other) const { return at != other.at ? at > other.at : order > other.order; }
  };
  struct Item {
    uint64_t bytes, left;
  };
  // One direction of a NIC. Connections with something to send take turns.
  struct Server {
    std::deque<std::pair<size_t, std::deque<Item>>> waiting;  // connection, messages
    bool busy = false;
  };

  void add(const bench::FlowPlan& plan, size_t ranks) {
    flows_.emplace_back();
    Flow& flow = flows_.back();
    for (size_t rank = 0; rank < ranks; rank++) {
      flow.ends.push_back(bench::weave(plan.sequence, static_cast<int>(rank)));
      flow.done.emplace_back(flow.ends.back().size(), 0);
    }
    for (uint32_t edge = 0; edge < plan.sequence.edges.size(); edge++) {
      const auto from = static_cast<size_t>(plan.sequence.edges[edge].from);
      const auto to = static_cast<size_t>(plan.sequence.edges[edge].to);
      const auto nic = static_cast<size_t>(plan.nics[edge]);
      Connection made{flows_.size() - 1,
                      from,
                      to,
                      endOf(flow, from, edge),
                      endOf(flow, to, edge),
                      nullptr,
                      nullptr,
                      2 * (from * net_.nics + nic),
                      2 * (to * net_.nics + nic) + 1};
      flow.connections.push_back(connections_.size());
      connections_.push_back(made);
    }
    for (const size_t index : flow.connections) {
      Connection& each = connections_[index];
      each.out = &flow.ends[each.from][each.outEnd];
      each.in = &flow.ends[each.to][each.inEnd];
    }
  }

  static size_t endOf(const Flow& flow, size_t rank, uint32_t edge) {
    size_t end = 0;
    while (flow.ends[rank][end].edge != edge) end++;
    return end;
  }

  bool met(const Flow& flow, size_t rank, const bench::Message& message) const {
    return std::all_of(message.needs.begin(), message.needs.end(),
                       [&](const bench::Need& need) { return flow.done[rank][need.end] >= need.count; });
  }

  // Posts and completes what can be, until nothing changes.
  void look(size_t number) {
    Flow& flow = flows_[number];
    bool moved = true;
    while (std::exchange(moved, false)) {
      for (const size_t index : flow.connections) {
        Connection& each = connections_[index];
        while (each.done < each.arrived && met(flow, each.to, each.in->messages[each.done])) {
          each.done++;
          flow.done[each.to][each.inEnd] = flow.done[each.from][each.outEnd] = each.done;
          moved = true;
        }
        while (each.posted < each.out->messages.size() && each.posted < each.done + net_.slots &&
               met(flow, each.from, each.out->messages[each.posted])) {
          enqueue(each.egress, index, each.out->messages[each.posted++].bytes);
        }
      }
    }
  }

  void enqueue(size_t server, size_t connection, uint64_t bytes) {
    auto& waiting = servers_[server].waiting;
    const auto found =
        std::find_if(waiting.begin(), waiting.end(), [&](const auto& each) { return each.first == connection; });
    if (found != waiting.end()) {
      found->second.push_back({bytes, bytes});
    } else {
      waiting.push_back({connection, {{bytes, bytes}}});
    }
    if (!servers_[server].busy) serve(server);
  }

  void serve(size_t server) {
    auto& waiting = servers_[server].waiting;
    servers_[server].busy = !waiting.empty();
    if (waiting.empty()) return;
    auto next = std::move(waiting.front());
    waiting.pop_front();
    const size_t connection = next.first;
    Item& item = next.second.front();
    const uint64_t now = std::min(item.left, net_.quantum);
    item.left -= now;
    const uint64_t passedBytes = item.left == 0 ? item.bytes : 0;
    if (item.left == 0) next.second.pop_front();
    if (!next.second.empty()) waiting.push_back(std::move(next));
    at(now_ + static_cast<double>(now) / net_.bytesPerUs, [this, server, connection, passedBytes] {
      if (passedBytes > 0) passed(server, connection, passedBytes);
      serve(server);
    });
  }

  void passed(size_t server, size_t connection, uint64_t bytes) {
    Connection& each = connections_[connection];
    if (server == each.egress) return enqueue(each.ingress, connection, bytes);
    at(now_ + net_.latencyUs, [this, connection] {
      connections_[connection].arrived++;
      look(connections_[connection].flow);
    });
  }

  void at(double when, std::function<void()> what) { events_.push({when, order_++, std::move(what)}); }

  const SimNet net_;
  std::vector<Server> servers_;
  std::deque<Flow> flows_;
  std::deque<Connection> connections_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t order_ = 0;
  double now_ = 0;
};

}  // namespace r2cc::test
