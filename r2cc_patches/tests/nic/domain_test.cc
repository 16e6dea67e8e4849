// Which NICs fail together, from sysfs trees in a temporary folder; and that none is chosen as another's backup where
// there is a third.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "check.h"
#include "nic/domain.h"
#include "rig/rig.h"
#include "scratch.h"

using namespace r2cc;
using namespace r2cc::fake;
namespace fs = std::filesystem;

namespace {

struct Sysfs {
  std::string device(const std::string& path) const {
    fs::create_directories(root + "/sys/devices/" + path);
    return root + "/sys/devices/" + path;
  }
  void interface(const std::string& name, const std::string& path = "") const {
    fs::create_directories(root + "/sys/class/net/" + name);
    if (!path.empty()) fs::create_symlink(device(path), root + "/sys/class/net/" + name + "/device");
  }
  void over(const std::string& upper, const std::string& lower) const {
    interface(upper);
    fs::create_symlink(root + "/sys/class/net/" + lower, root + "/sys/class/net/" + upper + "/lower_" + lower);
  }
  std::vector<uint8_t> domains(const std::vector<std::string>& names) const {
    std::vector<NicName> nics;
    for (const std::string& name : names) nics.push_back({name, ""});
    return failureDomains(nics, root);
  }
  const check::Scratch folder;
  const std::string& root = folder.path();
};

using Domains = std::vector<uint8_t>;

/// What host 0 said of lanes: where it asked for them, and which it took into a plan.
class Lanes {
 public:
  explicit Lanes(Rig& rig) {
    rig.spy = [this](int host, const NicAddress&, const std::vector<uint8_t>& bytes) {
      const auto parsed = Parsed::open(bytes.data(), bytes.size());
      if (!parsed || host != 0) return;
      const std::lock_guard<std::mutex> lock(mutex_);
      parsed->forEach([&](Type type, Reader& reader) { hear(type, reader); });
    };
  }
  bool asked(uint8_t nic) const { return has(asked_, nic); }
  bool planned(uint8_t nic) const { return has(planned_, nic); }

 private:
  void hear(Type type, Reader& reader) {
    if (type == Type::OpenLane) {
      OpenLane message;
      reader(message);
      nicOf_[message.lane] = message.localDev;
      asked_.insert(message.localDev);
    } else if (type == Type::Freeze) {
      Freeze message;
      reader(message);
      if (nicOf_.count(message.lane) != 0) planned_.insert(nicOf_[message.lane]);
    } else if (type == Type::Switch) {
      Switch message;
      reader(message);
      for (const WeightedLane& lane : message.lanes) planned_.insert(nicOf_[lane.lane]);
    }
  }
  bool has(const std::set<uint8_t>& nics, uint8_t nic) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return nics.count(nic) != 0;
  }
  mutable std::mutex mutex_;
  std::map<uint32_t, uint8_t> nicOf_;
  std::set<uint8_t> asked_, planned_;
};

constexpr int kMadeMs = 700;  // until a lane that was asked for is there, on any machine

RigOptions options(int rails, Domains domains, int mode = 1) {
  RigOptions out;
  out.rails = rails;
  out.domains = std::move(domains);
  out.mode = mode;
  return out;
}

/// Home is rail 0, which is lost in the middle.
void loseHome(Rig& rig, const Lanes& lanes, const std::function<bool()>& ready) {
  Stream& s = rig.stream(0, 1, 0, 2000);
  s.sender->limit = s.receiver->limit = 1000;
  rig.start();
  CHECK(Rig::within(msToNs(5000), [&] { return rig.delivered() == 1000 && ready(); }));
  CHECK(lanes.planned(0));
  std::this_thread::sleep_for(std::chrono::milliseconds(kMadeMs));
  rig.fabric.cut({0, 0}, Cut::Hold);
  rig.link(0, 0, false);
  s.sender->limit = s.receiver->limit = UINT64_MAX;
  CHECK(rig.allDone(msToNs(20000)));
  rig.stop();
  CHECK_EQ(rig.problems(), "");
  rig.fabric.healAll();
}

}  // namespace

TEST(net_domain_of_adapters_with_two_ports) {
  const Sysfs sys;
  sys.interface("a0", "pci0000:60/0000:60:02.0/0000:61:00.0");
  sys.interface("b0", "pci0000:60/0000:60:03.0/0000:62:00.0");
  sys.interface("a1", "pci0000:60/0000:60:02.0/0000:61:00.1");
  sys.interface("v0", "pci0000:00/0000:00:05.0/virtio1");
  sys.interface("v1", "pci0000:00/0000:00:06.0/virtio2");
  CHECK(sys.domains({"a0", "b0", "a1", "v0", "v1"}) == (Domains{0, 1, 0, 3, 4}));
}

TEST(net_domain_of_virtual_functions_and_cards_on_two_slots) {
  const Sysfs sys;
  sys.interface("p", "pci0000:60/0000:60:02.0/0000:61:00.0");
  sys.interface("other", "pci0000:60/0000:60:04.0/0000:63:00.0");
  sys.interface("vf", "pci0000:60/0000:60:02.0/0000:61:02.3");
  fs::create_symlink(sys.device("pci0000:60/0000:60:02.0/0000:61:00.0"),
                     sys.device("pci0000:60/0000:60:02.0/0000:61:02.3") + "/physfn");
  sys.interface("q", "pci0000:90/0000:90:02.0/0000:91:00.0");
  for (const std::string at : {"pci0000:60/0000:60:02.0/0000:61:00.0", "pci0000:90/0000:90:02.0/0000:91:00.0"}) {
    const std::string folder = sys.device(at + "/infiniband/mlx");
    std::ofstream(folder + "/sys_image_guid") << "0c42:a103:00aa:0001\n";
  }
  const std::string none = sys.device("pci0000:60/0000:60:04.0/0000:63:00.0/infiniband/mlx");
  std::ofstream(none + "/sys_image_guid") << "0000:0000:0000:0000\n";
  CHECK(sys.domains({"p", "other", "vf", "q"}) == (Domains{0, 1, 0, 0}));
}

TEST(net_domain_of_vlans_and_bonds) {
  const Sysfs sys;
  for (const char* name : {"eth0", "eth1", "eth2", "eth3"}) sys.interface(name);
  sys.over("eth0.10", "eth0");
  sys.over("eth0.20", "eth0");
  sys.over("bond0", "eth1");
  sys.over("bond0.5", "bond0");
  CHECK(sys.domains({"eth0.10", "eth1", "eth0.20", "eth3"}) == (Domains{0, 1, 0, 3}));
  CHECK(sys.domains({"eth2", "bond0.5", "eth1", "eth0.20"}) == (Domains{0, 1, 1, 3}));
  // A bond of two links joins what hangs on either.
  fs::create_symlink(sys.root + "/sys/class/net/eth2", sys.root + "/sys/class/net/bond0/lower_eth2");
  CHECK(sys.domains({"eth1", "eth2", "eth3", "bond0"}) == (Domains{0, 0, 2, 0}));
  CHECK(sys.domains({"nosuch0", "nosuch1"}) == (Domains{0, 1}));
}

TEST(net_domain_by_the_card_that_a_transport_names) {
  const Sysfs sys;
  (void)sys.device("pci0000:60/0000:60:02.0/0000:61:00.0");
  const std::string card = "/sys/devices/pci0000:60/0000:60:02.0/0000:61:00.0";
  CHECK(failureDomains({{"x", card}, {"y", ""}, {"z", card}}, sys.root) == (Domains{0, 1, 0}));
}

TEST(net_domain_no_backup_fails_with_home) {
  Rig rig(options(4, {0, 0, 2, 2}));
  const Lanes lanes(rig);
  loseHome(rig, lanes, [&] { return lanes.asked(2) || lanes.asked(3); });
  CHECK(!lanes.planned(1));
}

TEST(net_domain_no_load_goes_to_what_fails_with_home) {
  Rig rig(options(4, {0, 0, 2, 2}, 2));
  const Lanes lanes(rig);
  loseHome(rig, lanes, [&] { return lanes.asked(2) || lanes.asked(3); });
  CHECK(!lanes.planned(1));
}

TEST(net_domain_of_home_is_better_than_nothing) {
  Rig rig(options(2, {0, 0}));
  const Lanes lanes(rig);
  loseHome(rig, lanes, [&] { return lanes.asked(1); });
  CHECK(lanes.planned(1));
}
