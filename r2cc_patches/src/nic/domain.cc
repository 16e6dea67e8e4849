#include "nic/domain.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

namespace r2cc {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLayers = 8;  // of VLANs over bonds over links
constexpr const char* kLower = "lower_";

/// "/sys/devices/pci0000:17/0000:17:01.0/0000:18:00.1/virtio0": up to "0000:18:00", whatever the function. As it is
/// where there is no PCI address in it.
std::string adapterOf(const std::string& path) {
  std::string out = path;
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string part = path.substr(at, end - at);
    if (isPciAddress(part)) out = path.substr(0, at) + part.substr(0, part.find('.'));
    at = end + 1;
  }
  return out;
}

std::vector<std::string> entries(const std::string& folder, const std::string& prefix) {
  std::vector<std::string> out;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(prefix, 0) == 0) out.push_back(name.substr(prefix.size()));
  }
  return out;
}

class Sysfs {
 public:
  explicit Sysfs(const std::string& root) : root_(root) {}

  /// What it depends on, each by a name that no other thing has.
  std::set<std::string> below(const NicName& nic) const {
    std::set<std::string> out;
    addInterface(nic.name, kMostLayers, out);
    if (!nic.pciPath.empty()) addDevice(root_ + nic.pciPath, out);
    return out;
  }

 private:
  void addInterface(const std::string& name, int layers, std::set<std::string>& out) const {
    const std::string folder = root_ + "/sys/class/net/" + name;
    const std::vector<std::string> lower = entries(folder, kLower);
    for (const std::string& below : lower) {
      if (layers > 0) addInterface(below, layers - 1, out);
    }
    if (!lower.empty()) return;
    out.insert("interface " + name);
    addDevice(folder + "/device", out);
  }
  void addDevice(const std::string& device, std::set<std::string>& out) const {
    // A virtual function fails with the function it was made of. A card on two slots has one GUID.
    const std::string physical = realPath(device + "/physfn");
    const std::string path = physical.empty() ? realPath(device) : physical;
    if (path.empty()) return;
    out.insert("adapter " + adapterOf(path));
    const std::string cards = path + "/infiniband/";
    for (const std::string& name : entries(cards, "")) {
      std::string guidOf = cards;
      guidOf.append(name).append("/sys_image_guid");
      std::ifstream file(guidOf);
      std::string guid;
      if (file >> guid && guid.find_first_not_of("0:") != std::string::npos) out.insert("card " + guid);
    }
  }
  const std::string root_;
};

bool share(const std::set<std::string>& a, const std::set<std::string>& b) {
  return std::any_of(a.begin(), a.end(), [&](const std::string& thing) { return b.count(thing) != 0; });
}

}  // namespace

std::vector<uint8_t> failureDomains(const std::vector<NicName>& names, const std::string& root) {
  const Sysfs sysfs(root);
  std::vector<std::set<std::string>> below;
  std::vector<uint8_t> domains;
  for (const NicName& name : names) {
    domains.push_back(static_cast<uint8_t>(domains.size()));
    below.push_back(sysfs.below(name));
  }
  // A bond joins the domains of its links: all of them take the lowest number.
  for (size_t a = 0; a < names.size(); a++) {
    for (size_t b = 0; b < a; b++) {
      if (!share(below[a], below[b])) continue;
      const uint8_t low = std::min(domains[a], domains[b]), high = std::max(domains[a], domains[b]);
      std::replace(domains.begin(), domains.end(), high, low);
    }
  }
  return domains;
}

}  // namespace r2cc
