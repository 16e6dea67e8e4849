// NICs' own counters against what their paths seem to carry.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/clock.h"
#include "check.h"
#include "nic/nic_traffic.h"
#include "scratch.h"

using r2cc::msToNs;
using r2cc::NicTraffic;

namespace {

struct Sysfs {
  r2cc::check::Scratch scratch;
  std::string path = scratch.path();

  void write(const std::string& folder, const std::string& name, uint64_t value) const {
    std::filesystem::create_directories(path + folder);
    std::ofstream(path + folder + name) << value << "\n";
  }
  void net(const std::string& nic, uint64_t out, uint64_t in) const {
    write("/class/net/" + nic + "/statistics/", "tx_bytes", out);
    write("/class/net/" + nic + "/statistics/", "rx_bytes", in);
  }
  void rdma(const std::string& nic, uint64_t out, uint64_t in) const {
    const std::string counters = "/class/net/" + nic + "/device/infiniband/mlx5_" + nic.back() + "/ports/1/counters/";
    write(counters, "port_xmit_data", out);
    write(counters, "port_rcv_data", in);
  }
};

}  // namespace

TEST(net_traffic_as_busy_as_its_sibling_or_not) {
  const Sysfs sys;
  NicTraffic traffic({"eth0", "eth1"}, sys.path);
  sys.net("eth0", 1000, 1000);
  sys.net("eth1", 5000, 5000);
  traffic.look(msToNs(1000));
  CHECK(!traffic.asBusyAsSiblings(0));  // nothing is known yet
  sys.net("eth0", 10'001'000, 10'001'000);
  sys.net("eth1", 5'005'000, 5'005'000);
  traffic.look(msToNs(1100));  // too soon for a window
  CHECK(!traffic.asBusyAsSiblings(0));
  traffic.look(msToNs(1300));
  CHECK(traffic.asBusyAsSiblings(0));
  CHECK(!traffic.asBusyAsSiblings(1));  // half as much: it may be slow
  sys.net("eth0", 20'001'000, 20'001'000);
  sys.net("eth1", 15'005'000, 10'005'000);
  traffic.look(msToNs(1600));
  CHECK(traffic.asBusyAsSiblings(1));  // it sends as much: its paths only share it with more
  traffic.look(msToNs(1900));
  CHECK(!traffic.asBusyAsSiblings(1));  // nothing moves
  sys.net("eth0", 90'001'000, 90'001'000);
  sys.net("eth1", 90'005'000, 90'005'000);
  traffic.look(msToNs(9000));  // of another time
  CHECK(!traffic.asBusyAsSiblings(0));
}

TEST(net_traffic_of_rdma_and_of_nics_that_are_not_there) {
  const Sysfs sys;
  NicTraffic traffic({"eth0", "eth1", "gone"}, sys.path);
  sys.net("eth0", 0, 0);
  sys.net("eth1", 0, 0);
  sys.rdma("eth0", 0, 0);
  sys.rdma("eth1", 0, 0);
  traffic.look(msToNs(1000));
  sys.rdma("eth0", 50'000, 0);  // words
  sys.rdma("eth1", 49'000, 0);
  traffic.look(msToNs(1300));
  CHECK(traffic.asBusyAsSiblings(0));
  CHECK(traffic.asBusyAsSiblings(1));
  CHECK(!traffic.asBusyAsSiblings(2));
  CHECK(!traffic.asBusyAsSiblings(3));
}
