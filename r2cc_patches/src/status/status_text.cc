// The status file's text (docs/reference/contracts.md; its form is harness/watch/status.py).
#include <unistd.h>

#include <array>
#include <cmath>
#include <utility>

#include "base/json/text.h"
#include "data/recv_connection.h"
#include "data/send_connection.h"
#include "status/status.h"

namespace r2cc {

std::string Status::text(bool ended) const {
  JsonWriter out;
  out.open('{').key("schema").number(1).key("build").text(options_.build).key("job").text(options_.job);
  out.key("host").text(host_).key("rank").number(rank_).key("pid").number(getpid());
  out.key("started_unix_s").number(static_cast<double>(startedMs_) / 1000);
  out.key("updated_unix_s").number(static_cast<double>(wallMs()) / 1000);
  out.key("ended").boolean(ended).key("mode").number(options_.mode).key("net").text(options_.net);
  addNics(out);
  addConnections(out);
  addTotals(out);
  out.key("events").open('[');
  for (const Event& event : events_) {
    out.open('{').key("at_unix_s").number(static_cast<double>(event.atMs) / 1000);
    out.key("nic").text(event.nic).key("state").text(event.state).close('}');
  }
  return out.close(']').close('}').out() + "\n";
}

void Status::addNics(JsonWriter& out) const {
  std::array<uint64_t, Tally::kNics> sent{}, received{}, home{}, away{}, here{};
  for (size_t i = 0; i < nics_.size(); i++) {
    sent[i] = tally_.closed[i].sent, received[i] = tally_.closed[i].received;
  }
  const auto take = [&](Connection& connection, auto& bytes) {
    connection.addBytes(bytes);
    const Connection::Seat& seat = connection.seat();
    if (connection.over() || seat.home == nullptr) return;
    home[seat.home->local]++;
    away[seat.home->local] += seat.away ? 1 : 0;
    for (size_t i = 0; i < nics_.size(); i++) here[i] += seat.nics >> i & 1;
  };
  for (const auto& [key, peer] : shared_.peers) {
    for (const auto& [id, connection] : peer->sends) take(*connection, sent);
    for (const auto& [id, connection] : peer->receivesById) take(*connection, received);
  }
  out.key("nics").open('[');
  for (size_t i = 0; i < nics_.size(); i++) {
    const Nic& nic = nics_[i];
    if (!nic.data) continue;
    out.open('{').key("name").text(nic.names.front()).key("device").text(nic.names.back());
    out.key("state").text(name(nic.state)).key("since_unix_s").number(static_cast<double>(nic.sinceMs) / 1000);
    out.key("capacity_percent").number(std::lround(nic.capacity * 100));
    out.key("tx_bytes").number(sent[i]).key("rx_bytes").number(received[i]);
    out.key("connections_home").number(home[i]).key("connections_carried").number(away[i]);
    out.key("connections_here").number(here[i]).close('}');
  }
  out.close(']');
}

void Status::addConnections(JsonWriter& out) const {
  std::map<std::string, int> connections{{"active", 0}, {"moving", 0}, {"held", 0}, {"failed", 0}};
  std::map<std::string, int> paths{{"up", 0}, {"suspect", 0}, {"dead", 0}, {"probation", 0}};
  const auto take = [&](const Connection& connection, bool held) {
    const ConnectionState state = connection.state();
    if (state == ConnectionState::Closed) return;
    connections[state == ConnectionState::Active            ? "active"
                : state == ConnectionState::Failed          ? "failed"
                : state == ConnectionState::Holding || held ? "held"
                                                            : "moving"]++;
  };
  constexpr std::array<const char*, 4> kPathStates{"up", "suspect", "dead", "probation"};
  for (const auto& [key, peer] : shared_.peers) {
    for (const auto& [id, connection] : peer->sends) take(*connection, connection->held());
    for (const auto& [id, connection] : peer->receivesById) take(*connection, false);
    for (const auto& path : peer->paths()) {
      if (path->data && peer->weConnect && peer->counts(*path))
        paths[kPathStates[static_cast<size_t>(path->state())]]++;
    }
  }
  for (const auto& [word, all] : {std::pair{"connections", &connections}, std::pair{"paths", &paths}}) {
    out.key(word).open('{');
    for (const auto& [state, count] : *all) out.key(state).number(count);
    out.close('}');
  }
}

void Status::addTotals(JsonWriter& out) const {
  const Tally::Counts counts = tally_.counts();
  const int64_t now = runNs();
  out.key("totals").open('{').key("nic_failures").number(nicFailures_).key("failovers").open('{');
  for (const auto& [cause, count] : counts.failovers) out.key(cause).number(count);
  out.close('}').key("failbacks").number(counts.failbacks).key("connections_lost").number(counts.lost);
  out.key("stalled_s").number(static_cast<double>(counts.stalled.totalNs(now)) / 1e9);
  out.key("held_s").number(static_cast<double>(counts.held.totalNs(now)) / 1e9);
  out.key("stalls").open('{').key("bounds_ms").open('[');
  for (const int64_t bound : Stalls::kBoundsMs) out.number(bound);
  out.close(']').key("counts").open('[');
  for (const uint64_t count : counts.stalls.counts) out.number(count);
  out.close(']').key("sum_s").number(static_cast<double>(counts.stalls.sumNs) / 1e9).close('}');
  out.key("dropped").open('{');
  const auto drop = [&](const char* reason, const std::atomic<uint64_t>& count) {
    out.key(reason).number(count.load());
  };
  drop("malformed", dropped_.malformed), drop("stranger", dropped_.stranger), drop("forged", dropped_.forged);
  drop("replayed", dropped_.replayed), drop("refusals", dropped_.refusals);
  out.close('}').close('}');
}

}  // namespace r2cc
