#include "inner/ib_interface.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

namespace r2cc {
namespace {

constexpr int kMostGids = 256;

void add(std::vector<std::string>& names, const std::string& name) {
  if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

/// In the table's order.
std::vector<std::string> namedByGids(const std::string& folder, int port) {
  const std::string table = folder + "/ports/" + std::to_string(port) + "/gid_attrs/ndevs/";
  std::vector<std::string> names;
  for (int gid = 0; gid < kMostGids; gid++) {
    std::ifstream file(table + std::to_string(gid));
    if (!file.is_open()) break;  // the table ends here
    std::string name;
    std::getline(file, name);  // reading an empty entry fails
    add(names, name);
  }
  return names;
}

std::vector<std::string> ofTheFunction(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/device/net", none)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::string ibInterface(const std::string& folder, int port, const Usable& usable) {
  std::vector<std::string> names = namedByGids(folder, port);
  if (names.empty()) names = ofTheFunction(folder);
  if (names.empty()) return "";
  const auto best = std::find_if(names.begin(), names.end(), usable);
  return best == names.end() ? names.front() : *best;
}

}  // namespace r2cc
