// Distances between NICs: from recorded sysfs trees, rebuilt in a temporary folder, and from R2CC_TOPO_FILE.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "check.h"
#include "nic/topology.h"
#include "scratch.h"

using namespace r2cc;
namespace fs = std::filesystem;

namespace {

/// A machine's /sys, as far as it concerns NICs.
struct Sysfs {
  /// `numa`: the text of numa_node; null: there is no such file.
  void nic(const std::string& name, const std::string& path, const char* numa) const {
    const std::string device = root + "/sys/devices/" + path;
    fs::create_directories(device);
    fs::create_directories(root + "/sys/class/net/" + name);
    fs::create_symlink(device, root + "/sys/class/net/" + name + "/device");
    if (numa != nullptr) std::ofstream(device + "/numa_node") << numa << "\n";
  }
  Distances distances(const std::vector<NicName>& nics) const { return {nics, "", "h0", nullptr, root}; }
  const check::Scratch folder;
  const std::string& root = folder.path();
};

/// A file that is gone at the end of the test.
struct File {
  explicit File(const std::string& text) { std::ofstream(path) << text; }
  const check::Scratch folder;
  const std::string path = folder / "topology.json";
};

// NOLINTNEXTLINE(bugprone-throwing-static-initialization): a test without memory may end
const std::vector<NicName> kFour = {{"eth0", ""}, {"eth1", ""}, {"eth2", ""}, {"eth3", ""}};

}  // namespace

// Two sockets; on the first a PCIe switch with two NICs and a NIC beside it, as in many eight-GPU servers.
TEST(net_topology_of_a_server_with_switches) {
  const Sysfs sys;
  sys.nic("eth0", "pci0000:17/0000:17:01.0/0000:18:00.0/0000:19:00.0/0000:1a:00.0", "0");
  sys.nic("eth1", "pci0000:17/0000:17:01.0/0000:18:00.0/0000:19:04.0/0000:1b:00.0", "0");
  sys.nic("eth2", "pci0000:30/0000:30:02.0/0000:31:00.0", "0");
  sys.nic("eth3", "pci0000:b0/0000:b0:01.0/0000:b1:00.0", "1");
  const Distances d = sys.distances(kFour);
  CHECK(!d.fromFile());
  CHECK_EQ(d.describe(), "eth0 eth1 0, eth0 eth2 1, eth0 eth3 2, eth1 eth2 1, eth1 eth3 2, eth2 eth3 2");
  for (size_t nic = 0; nic < 4; nic++) CHECK_EQ(d.distance(nic, nic), kSameSwitch);
  CHECK_EQ(d.distance(3, 0), kFarAway);
  CHECK_EQ(d.distance(0, 4), kFarAway);
}

TEST(net_topology_ports_of_one_card) {
  const Sysfs sys;
  sys.nic("eth0", "pci0000:60/0000:60:02.0/0000:61:00.0", "0");
  sys.nic("eth1", "pci0000:60/0000:60:02.0/0000:61:00.1", "0");
  sys.nic("eth2", "pci0000:60/0000:60:03.0/0000:62:00.0", "0");
  CHECK_EQ(sys.distances(kFour).describe(),
           "eth0 eth1 0, eth0 eth2 1, eth0 eth3 2, eth1 eth2 1, eth1 eth3 2, eth2 eth3 2");
}

// A virtual machine: no bridges, no NUMA information; then NICs on no bus at all (veth).
TEST(net_topology_of_virtual_machines) {
  const Sysfs sys;
  sys.nic("eth0", "pci0000:00/0000:00:05.0", "-1");
  sys.nic("eth1", "pci0000:00/0000:00:06.0", nullptr);
  sys.nic("eth2", "pci0000:00/0000:00:05.1", "-1");
  const Distances d = sys.distances(kFour);
  CHECK_EQ(d.describe(), "eth0 eth1 1, eth0 eth2 0, eth0 eth3 2, eth1 eth2 1, eth1 eth3 2, eth2 eth3 2");
  CHECK_EQ(Distances({}, "", "", nullptr).describe(), "");
}

TEST(net_topology_by_the_path_that_a_transport_gives) {
  const Sysfs sys;
  sys.nic("x", "pci0000:17/0000:17:01.0/0000:18:00.0", "0");
  sys.nic("y", "pci0000:40/0000:40:01.0/0000:41:00.0", "0");
  const Distances d = sys.distances({{"mlx5_0", "/sys/devices/pci0000:17/0000:17:01.0/0000:18:00.0"},
                                     {"mlx5_1", "/sys/devices/pci0000:40/0000:40:01.0/0000:41:00.0"},
                                     {"mlx5_2", "/sys/devices/pci0000:17/0000:17:01.0/0000:18:00.9"}});  // is not there
  CHECK_EQ(d.describe(), "mlx5_0 mlx5_1 1, mlx5_0 mlx5_2 0, mlx5_1 mlx5_2 2");
}

TEST(net_topology_from_file) {
  const File file(R"({"schema": 1, "hosts": {
    "h0": {"nics": {"eth0": {"numa": 0, "switch": "a", "rate_gbit": 1.0}, "eth1": {"numa": 0, "switch": "a"},
                    "eth2": {"numa": 0, "switch": "b", "rate_gbit": 0.5}, "eth3": {}}},
    "h1": {"nics": {}}}})");
  std::vector<std::string> warnings;
  const auto warn = [&](const std::string& text) { warnings.push_back(text); };
  const Distances d(kFour, file.path, "h0", warn);
  CHECK(d.fromFile() && warnings.empty());
  CHECK_EQ(d.describe(), "eth0 eth1 0, eth0 eth2 1, eth0 eth3 2, eth1 eth2 1, eth1 eth3 2, eth2 eth3 2");
  CHECK_EQ(d.place(2).rateGbit, 0.5);
  CHECK_EQ(readPlaces(file.path).size(), 2u);

  const Distances other(kFour, file.path, "h7", warn);
  CHECK(!other.fromFile());
  CHECK_EQ(warnings.size(), 1u);
  CHECK_EQ(warnings.back(), "R2CC_TOPO_FILE " + file.path + ":1: does not name this host, h7; going on without it");
}

TEST(net_topology_malformed_file_is_as_none) {
  const std::pair<const char*, const char*> kBad[] = {
      {"{\"schema\": 1,\n\"hosts\": {\n\"h0\": {\"nics\": {\"eth0\": {\"numa\": -1}}}}}", ":3: numa must be a whole"},
      {"{\"schema\": 2, \"hosts\": {}}", ":1: schema must be a whole number from 1 to 1"},
      {"{\"hosts\": {}}", ":1: key \"schema\" is missing"},
      {"{\"schema\": 1}", ":1: key \"hosts\" is missing"},
      {"[]", ":1: the file must be an object, not an array"},
      {"{\"schema\": 1, \"hosts\": {},\n\"x\": 1}", ":2: unknown key \"x\""},
      {"{\"schema\": 1, \"hosts\": {\n\"h0\": {\"nics\": {\"eth0\": {\"speed\": 1}}}}}", ":2: unknown key \"speed\""},
      {"{\"schema\": 1, \"hosts\": {\"h0\": {\"nics\": {\"eth0\": 7}}}}", ":1: a NIC must be an object"},
      {"{\"schema\": 1, \"hosts\": {\"h0\": {\"nics\": {\"eth0\": {\"rate_gbit\": -2}}}}}", ":1: rate_gbit is out of"},
      {"{\"schema\": 1,\n\n", ":3: "},
  };
  const Sysfs sys;
  sys.nic("eth0", "pci0000:60/0000:60:02.0/0000:61:00.0", "0");
  sys.nic("eth1", "pci0000:60/0000:60:02.0/0000:61:00.1", "0");
  for (const auto& [text, says] : kBad) {
    const File file(text);
    std::vector<std::string> warnings;
    const Distances d(kFour, file.path, "h0", [&](const std::string& w) { warnings.push_back(w); }, sys.root);
    CHECK_EQ(warnings.size(), 1u);
    CHECK(!warnings.empty() && warnings[0].rfind("R2CC_TOPO_FILE " + file.path + says, 0) == 0);
    CHECK(!d.fromFile() && d.distance(0, 1) == kSameSwitch);  // sysfs it is
  }
  int warned = 0;
  (void)Distances(kFour, "/nonexistent/t.json", "h0", [&](const std::string&) { warned++; });
  CHECK_EQ(warned, 1);
}
