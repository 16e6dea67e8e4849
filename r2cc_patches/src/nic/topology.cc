#include "nic/topology.h"

#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <fstream>

#include "base/json/reader.h"

namespace r2cc {
namespace {

constexpr int kMostNodes = 1024;
constexpr int kMostGbit = 100000;

Place readPlace(const Json& json) {
  (void)json.object("a NIC");
  json.allow({"numa", "switch", "rate_gbit"});
  Place place;
  if (const Json* numa = json.find("numa")) place.numa = static_cast<int>(numa->integer("numa", 0, kMostNodes));
  if (const Json* name = json.find("switch")) place.switchName = name->string("switch");
  if (const Json* rate = json.find("rate_gbit")) place.rateGbit = rate->number("rate_gbit");
  if (place.rateGbit < 0 || place.rateGbit > kMostGbit) throw JsonError(json.line(), "rate_gbit is out of range");
  return place;
}

/// "/sys/devices/pci0000:17/0000:17:01.0/0000:18:00.0" in its parts behind "devices".
std::vector<std::string> busParts(const std::string& path) {
  constexpr std::string_view kDevices = "/devices/";
  std::vector<std::string> parts;
  size_t at = path.find(kDevices);
  if (at == std::string::npos) return parts;
  at += kDevices.size();
  while (at < path.size()) {
    const size_t end = std::min(path.find('/', at), path.size());
    if (end > at) parts.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

/// Two NICs are under one switch when they share a bridge below the root complex. The bridge next to the root tells:
/// bridges form a tree. A card with two ports shares it with itself.
Place sysfsPlace(const NicName& nic, const std::string& root) {
  const std::string given = root + nic.pciPath;
  std::string path = realPath(nic.pciPath.empty() ? root + "/sys/class/net/" + nic.name + "/device" : given);
  if (path.empty()) path = given;  // transports may name a card by its first function, whether that exists or not
  Place place;
  const std::vector<std::string> parts = busParts(path);
  if (parts.size() < 2 || parts[0].rfind("pci", 0) != 0 || !isPciAddress(parts[1])) return place;
  place.root = parts[0];
  // A device directly on the root complex has no bridge above it; its functions are one device.
  const bool bridged = parts.size() > 2 && isPciAddress(parts[2]);
  place.switchName = bridged ? parts[1] : parts[1].substr(0, parts[1].find('.'));
  std::ifstream numa(path + "/numa_node");
  if (!(numa >> place.numa)) place.numa = -1;
  return place;
}

}  // namespace

bool isPciAddress(const std::string& part) {
  return part.size() >= 12 && part[4] == ':' && part[7] == ':' && part[10] == '.';
}

std::string realPath(const std::string& path) {
  char resolved[PATH_MAX];
  return realpath(path.c_str(), resolved) == nullptr ? "" : resolved;
}

Places readPlaces(const std::string& path) {
  const Json file = readJsonFile(path);
  try {
    (void)file.object("the file");
    file.allow({"schema", "hosts"});
    (void)file.at("schema").integer("schema", 1, 1);
    Places places;
    for (const auto& [host, value] : file.at("hosts").object("hosts")) {
      (void)value.object("host " + host);
      value.allow({"nics"});
      auto& nics = places[host];  // also when it has none
      for (const auto& [nic, place] : value.at("nics").object("nics")) nics[nic] = readPlace(place);
    }
    return places;
  } catch (const JsonError& error) {
    throw JsonError(path, error);
  }
}

Distances::Distances(const std::vector<NicName>& nics, const std::string& file, const std::string& host,
                     const Warn& warn, const std::string& root)
    : nics_(nics), places_(nics.size()) {
  fromFile_ = !file.empty() && useFile(file, host, warn);
  if (fromFile_) return;
  for (size_t i = 0; i < nics.size(); i++) places_[i] = sysfsPlace(nics[i], root);
}

bool Distances::useFile(const std::string& file, const std::string& host, const Warn& warn) {
  Places all;
  try {
    all = readPlaces(file);
  } catch (const JsonError& error) {
    warn("R2CC_TOPO_FILE " + std::string(error.what()) + "; going on without it");
    return false;
  }
  const auto ours = all.find(host);
  if (ours == all.end()) {
    warn("R2CC_TOPO_FILE " + file + ":1: does not name this host, " + host + "; going on without it");
    return false;
  }
  for (size_t i = 0; i < nics_.size(); i++) {
    const auto nic = ours->second.find(nics_[i].name);
    if (nic != ours->second.end()) places_[i] = nic->second;
  }
  return true;
}

int Distances::distance(size_t a, size_t b) const {
  if (a >= places_.size() || b >= places_.size()) return kFarAway;
  if (a == b) return kSameSwitch;
  const Place& x = places_[a];
  const Place& y = places_[b];
  if (!x.switchName.empty() && x.switchName == y.switchName && x.root == y.root) return kSameSwitch;
  if (x.numa >= 0 && y.numa >= 0) return x.numa == y.numa ? kSameNode : kFarAway;
  return !x.root.empty() && x.root == y.root ? kSameNode : kFarAway;
}

std::string Distances::describe() const {
  std::string out;
  for (size_t a = 0; a < nics_.size(); a++) {
    for (size_t b = a + 1; b < nics_.size(); b++) {
      out += (out.empty() ? "" : ", ") + nics_[a].name + " " + nics_[b].name + " " + std::to_string(distance(a, b));
    }
  }
  return out;
}

std::string hostName() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

}  // namespace r2cc
