#include "bench/report.h"

#include <sys/resource.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "bench/clock.h"
#include "bench/json.h"

namespace r2cc::bench {
namespace {

constexpr uint64_t kNsPerUs = 1000;

JsonObject lineOf(const char* event, int rank, uint64_t tNs) {
  JsonObject line;
  line.unsignedInteger("t_ns", tNs).text("event", event).integer("rank", rank);
  return line;
}

std::string connectionJson(const Connection& connection, const Net& net) {
  const ConnectionId& id = connection.id();
  return JsonObject()
      .integer("id", id.id)
      .integer("peer", id.peer)
      .text("direction", connection.sends() ? "send" : "recv")
      .integer("channel", id.channel)
      .text("nic", net.nics()[static_cast<size_t>(id.nic)].name)
      .str();
}

// The most of this program alone. getrusage also counts what the process had before it became this program: where a
// large process started it, that is all that it would say.
uint64_t peakMemoryBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    uint64_t kib = 0;
    if (word == "VmHWM:" && status >> kib) return kib * 1024;
  }
  return 0;
}

// What a plan's placement puts on each NIC in an iteration.
std::string nicBytes(const NamedLoads& loads) {
  JsonObject nics;
  for (const auto& [name, load] : loads) {
    nics.raw(name, JsonObject().integer("tx", std::llround(load.tx)).integer("rx", std::llround(load.rx)).str());
  }
  return nics.str();
}

void appendItem(std::string& list, const std::string& item) { list += (list.empty() ? "" : ",") + item; }

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

}  // namespace

// Without the variable the library runs mode 1 (r2cc_patches/src/engine/config.cc).
int modeFromEnvironment() {
  const char* mode = std::getenv("R2CC_MODE");
  return mode != nullptr ? static_cast<int>(std::strtol(mode, nullptr, 10)) : 1;
}

std::string startLine(const Options& options, const Net& net, const std::vector<Flow>& flows, const NamedLoads& loads) {
  std::string nics;
  for (const NicInfo& nic : net.nics()) appendItem(nics, jsonQuote(nic.name));
  std::string connections;
  for (const Flow& flow : flows) {
    for (const Connection& connection : flow.connections()) appendItem(connections, connectionJson(connection, net));
  }
  JsonObject line = lineOf("bench_start", options.rank, nowNs());
  line.text("op", nameOf(options.op))
      .unsignedInteger("bytes", options.bytes)
      .integer("ranks", options.ranks)
      .integer("channels", options.channels)
      .integer("in_a_row", options.inARow)
      .unsignedInteger("chunk_bytes", options.chunkBytes)
      .integer("slots", options.slots)
      .integer("mode", modeFromEnvironment())
      .raw("nics", "[" + nics + "]")
      .raw("connections", "[" + connections + "]");
  if (options.plan && !loads.empty())
    line.text("schedule", planner::name(options.plan->schedule)).raw("nic_bytes", nicBytes(loads));
  return line.str();
}

std::string scheduleLine(int rank, const Choice& choice, const Adoption& adoption) {
  constexpr size_t kMostText = 1024;
  return lineOf("schedule", rank, nowNs())
      .integer("index", adoption.index)
      .unsignedInteger("epoch", choice.epoch)
      .text("schedule", planner::name(choice.plan.schedule))
      .unsignedInteger("parts", choice.plan.parts.size())
      .text("capacities", choice.capacities.substr(0, kMostText))
      .text("why", choice.plan.why.substr(0, kMostText))
      .unsignedInteger("connections", adoption.connections)
      .unsignedInteger("chose_us", adoption.choseNs / kNsPerUs)
      .unsignedInteger("connect_us", adoption.connectNs / kNsPerUs)
      .str();
}

std::string progressLine(int rank, int64_t index, uint64_t startNs) {
  return lineOf("progress", rank, startNs).integer("index", index).unsignedInteger("start_ns", startNs).str();
}

std::string lateLine(int rank, int64_t index, int ms, const char* phase) {
  return lineOf("late", rank, nowNs()).integer("index", index).integer("ms", ms).text("phase", phase).str();
}

std::string iterationLine(const Options& options, int64_t index, uint64_t startNs, uint64_t endNs,
                          uint64_t wrongElements) {
  return lineOf("iteration", options.rank, nowNs())
      .integer("index", index)
      .unsignedInteger("start_ns", startNs)
      .unsignedInteger("end_ns", endNs)
      .unsignedInteger("bytes", options.bytes)
      .unsignedInteger("wrong_elements", wrongElements)
      .str();
}

std::string errorLine(int rank, const std::string& message, int peer, int connection) {
  JsonObject line = lineOf("error", rank, nowNs());
  line.text("message", message.substr(0, 1024));
  line.raw("peer", peer < 0 ? "null" : std::to_string(peer));
  line.raw("connection", connection < 0 ? "null" : std::to_string(connection));
  return line.str();
}

std::string endLine(int rank, int64_t completed, uint64_t wrongElements) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return lineOf("bench_end", rank, nowNs())
      .integer("completed", completed)
      .unsignedInteger("wrong_elements", wrongElements)
      .unsignedInteger("max_rss_bytes", peakMemoryBytes())
      .real("cpu_s", seconds(usage.ru_utime) + seconds(usage.ru_stime))
      .str();
}

std::vector<std::string> deliveryLines(int rank, int connection, int64_t index, uint64_t startNs,
                                       const std::vector<uint64_t>& deliveredNs) {
  std::vector<std::string> lines;
  uint64_t previousUs = 0;
  for (size_t next = 0; next < deliveredNs.size();) {
    JsonObject line = lineOf("delivery", rank, nowNs());
    line.integer("connection", connection).integer("index", index).unsignedInteger("start_ns", startNs);
    line.unsignedInteger("part", lines.size());
    const size_t room = kMaxLineBytes - line.str().size() - std::string(",\"gaps_us\":[]\n").size();
    std::string gaps;
    while (next < deliveredNs.size()) {
      const uint64_t us = (deliveredNs[next] - startNs) / kNsPerUs;
      const std::string gap = std::to_string(us - previousUs);
      if (gaps.size() + gap.size() + 1 > room) break;
      appendItem(gaps, gap);
      previousUs = us;
      next++;
    }
    lines.push_back(line.raw("gaps_us", "[" + gaps + "]").str());
  }
  return lines;
}

}  // namespace r2cc::bench
