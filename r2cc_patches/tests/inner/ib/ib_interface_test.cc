// Which interface is an RDMA device's, by folders like those of /sys/class/infiniband.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

#include "check.h"
#include "inner/ib_interface.h"
#include "scratch.h"

using namespace r2cc;
using r2cc::check::Scratch;

namespace {

/// The entries of a GID table in their order. An empty one cannot be read, as in sysfs: here it is a folder.
void table(const std::string& folder, int port, const std::vector<std::string>& names) {
  const std::string path = folder + "/ports/" + std::to_string(port) + "/gid_attrs/ndevs";
  std::filesystem::create_directories(path);
  for (size_t i = 0; i < names.size(); i++) {
    const std::string entry = path + "/" + std::to_string(i);
    if (names[i].empty()) {
      std::filesystem::create_directory(entry);
    } else {
      std::ofstream(entry) << names[i] << "\n";
    }
  }
}

Usable among(const std::set<std::string>& names) {
  return [names](const std::string& name) { return names.count(name) != 0; };
}

}  // namespace

TEST(net_ib_interface_is_the_one_with_an_address) {
  const Scratch folder;
  table(folder.path(), 1, {"ens1", "ens1", "ens1", "ens1.100", "ens1.100", "", "ens1.200"});
  CHECK_EQ(ibInterface(folder.path(), 1, among({"ens1.100", "ens1.200"})), "ens1.100");
  CHECK_EQ(ibInterface(folder.path(), 1, among({"ens1.200"})), "ens1.200");
  CHECK_EQ(ibInterface(folder.path(), 1, among({"ens1", "ens1.100"})), "ens1");
  CHECK_EQ(ibInterface(folder.path(), 1, among({})), "ens1");    // none has: as before
  CHECK_EQ(ibInterface(folder.path(), 2, among({"ens1"})), "");  // no such port
}

TEST(net_ib_interface_of_infiniband_is_one_of_the_function) {
  const Scratch folder;
  table(folder.path(), 1, {"", "", ""});
  CHECK_EQ(ibInterface(folder.path(), 1, among({})), "");
  for (const char* name : {"ib0", "ib0.8001", "ib1"})
    std::filesystem::create_directories(folder / "device/net/" + name);
  CHECK_EQ(ibInterface(folder.path(), 1, among({"ib1", "ib0.8001"})), "ib0.8001");
  CHECK_EQ(ibInterface(folder.path(), 1, among({})), "ib0");
}

TEST(net_ib_interface_behind_a_long_table) {
  const Scratch folder;
  std::vector<std::string> names(100, "ens1");
  names.push_back("ens1.7");
  table(folder.path(), 1, names);
  CHECK_EQ(ibInterface(folder.path(), 1, among({"ens1.7"})), "ens1.7");
}
