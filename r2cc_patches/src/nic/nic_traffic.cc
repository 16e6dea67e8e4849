#include "nic/nic_traffic.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/clock.h"

namespace r2cc {
namespace {

constexpr int64_t kTrafficWindowNs = msToNs(200);
constexpr int64_t kTrafficStaleNs = msToNs(2000);  // counters from before are of another time
constexpr double kAsBusyAs = 0.85;
constexpr uint64_t kLittleTraffic = 64 << 10;  // bytes in a window, which say nothing
constexpr uint64_t kRdmaWord = 4;              // RDMA ports count words

bool number(const std::string& file, uint64_t& value) {
  std::ifstream in(file);
  return static_cast<bool>(in >> value);
}

}  // namespace

NicTraffic::NicTraffic(std::vector<std::string> names, std::string sysfs)
    : names_(std::move(names)), sysfs_(std::move(sysfs)) {}

void NicTraffic::add(const std::string& name) {
  const bool second = std::find(names_.begin(), names_.end(), name) != names_.end();
  names_.push_back(second ? "" : name);
}

NicTraffic::Counters NicTraffic::read(const std::string& name) const {
  Counters found;
  if (name.empty()) return found;
  const std::string interface = sysfs_ + "/class/net/" + name + "/statistics/";
  found.known = number(interface + "tx_bytes", found.out) && number(interface + "rx_bytes", found.in);
  std::error_code none;
  for (const auto& rdma :
       std::filesystem::directory_iterator(sysfs_ + "/class/net/" + name + "/device/infiniband", none)) {
    const std::string port = rdma.path().string() + "/ports/1/counters/port_";
    uint64_t out = 0, in = 0;
    if (!number(port + "xmit_data", out) || !number(port + "rcv_data", in)) continue;
    found.out += kRdmaWord * out;  // an interface does not count what RDMA moves
    found.in += kRdmaWord * in;
  }
  return found;
}

void NicTraffic::look(int64_t now) {
  if (now - lastNs_ < kTrafficWindowNs) return;
  std::vector<Counters> counters;
  counters.reserve(names_.size());
  for (const std::string& name : names_) counters.push_back(read(name));
  comparable_ = std::count_if(counters.begin(), counters.end(), [](const Counters& c) { return c.known; }) > 1;
  const bool compare = comparable_ && !last_.empty() && now - lastNs_ < kTrafficStaleNs;
  lastNs_ = now;
  out_.clear();
  in_.clear();
  for (size_t i = 0; compare && i < counters.size(); i++) {
    const bool known = counters[i].known && last_[i].known;
    out_.push_back(known ? counters[i].out - last_[i].out : 0);
    in_.push_back(known ? counters[i].in - last_[i].in : 0);
  }
  last_ = std::move(counters);
}

bool NicTraffic::asBusyAsSiblings(size_t nic) const {
  const auto asMuch = [nic](const std::vector<uint64_t>& moved) {
    if (nic >= moved.size()) return false;
    const uint64_t most = *std::max_element(moved.begin(), moved.end());
    return most >= kLittleTraffic && static_cast<double>(moved[nic]) >= kAsBusyAs * static_cast<double>(most);
  };
  return asMuch(out_) || asMuch(in_);
}

}  // namespace r2cc
