#include "settings.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <utility>

#include "base/siphash.h"
#include "debug.h"
#include "engine/config.h"
#include "planner/costs_file.h"
#include "socket.h"

namespace r2cc::schedules {
namespace {

constexpr size_t kMostOfName = 16;
constexpr long kFewestBytes = 4 << 10, kMostBytes = 4 << 20;

planner::Schedule scheduleOf(const char* text) {
  using planner::Schedule;
  if (text == nullptr || *text == '\0') return Schedule::Auto;
  for (const Schedule known : {Schedule::Auto, Schedule::Ring, Schedule::Reranked, Schedule::Chain, Schedule::Tree}) {
    if (std::string(text) == planner::name(known)) return known;
  }
  WARN("R2CC: R2CC_SCHEDULE=%s is not one of auto, ring, reranked, chain, tree; running auto", text);
  return Schedule::Auto;
}

/// Costs that cannot be read are none, and marked so: with those of ranks that can, they make no communicator.
void readCosts(const char* path, Settings& s) {
  if (path == nullptr || *path == '\0') return;
  try {
    planner::CostsFile file = planner::readCostsFile(path);
    char mark[24];
    std::snprintf(mark, sizeof(mark), " %016" PRIx64,
                  sipHash(Key{}, reinterpret_cast<const uint8_t*>(file.text.data()), file.text.size()));
    s.costs = std::move(file.costs);
    s.costsMark = s.costs->name.substr(0, kMostOfName) + mark;
  } catch (const planner::PlanError& error) {
    WARN("R2CC: R2CC_COSTS=%s: %s; running with NCCL's own costs", path, error.what());
  }
}

Settings read() {
  const Config config = Config::fromEnvironment();
  Settings s;
  s.mode = config.mode;
  s.holdMs = config.holdNs / 1'000'000;
  s.sideInterface = config.sideInterface;
  s.tls = config.tls;
  s.tlsSecretFile = config.tlsSecretFile;
  s.schedule = scheduleOf(std::getenv("R2CC_SCHEDULE"));
  readCosts(std::getenv("R2CC_COSTS"), s);
  const char* chunk = std::getenv("R2CC_CHAIN_CHUNK_BYTES");
  if (chunk == nullptr) return s;
  const long bytes = std::strtol(chunk, nullptr, 10);
  if (bytes >= kFewestBytes && bytes <= kMostBytes)
    s.leastChunkBytes = static_cast<int>(bytes);
  else
    WARN("R2CC: R2CC_CHAIN_CHUNK_BYTES=%s is not from %ld to %ld; running %d", chunk, kFewestBytes, kMostBytes,
         s.leastChunkBytes);
  return s;
}

std::string numeric(const sockaddr* address) {
  char host[NI_MAXHOST];
  const socklen_t size = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  if (getnameinfo(address, size, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) return {};
  return host;
}

std::string addressOf(const std::string& interface) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || interface != one->ifa_name) continue;
    if (one->ifa_addr->sa_family == AF_INET || one->ifa_addr->sa_family == AF_INET6) return numeric(one->ifa_addr);
  }
  return {};
}

}  // namespace

const Settings& Settings::get() {
  static const Settings& the = *new Settings(read());  // never destroyed: background threads may outlive main()
  return the;
}

std::string Settings::whereToMeet() const {
  const std::string side = addressOf(sideInterface);
  if (!side.empty()) return side;
  char name[MAX_IF_NAME_SIZE + 1] = {};
  ncclSocketAddress address = {};
  int found = 0;
  if (ncclFindInterfaces(name, &address, MAX_IF_NAME_SIZE, 1, &found) != ncclSuccess || found < 1) {
    throw std::runtime_error("no interface to agree over");
  }
  return numeric(&address.sa);
}

}  // namespace r2cc::schedules
