#include "net/in_path.h"

namespace r2cc {
namespace {

std::string join(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

/// "all protected", or how many.
std::string share(uint64_t some, uint64_t all) {
  if (some == all) return "all protected";
  return some == 0 ? "none protected" : std::to_string(some) + " protected";
}

}  // namespace

std::string inPathLine(const InPath& path) {
  std::string line = "R2CC: in the path: build " + path.build + ", R2CC_MODE=" + std::to_string(path.mode);
  line += ", net " + path.net + ", NICs " + join(path.nics) + " (" + share(path.protectedNics, path.nics.size()) + ")";
  if (path.connections == 0) return line + ", no connection yet";
  return line + ", " + std::to_string(path.connections) + " connections so far (" +
         share(path.protectedConnections, path.connections) + ")";
}

std::string outOfPathLine(const std::string& plugin, const std::string& library) {
  return "R2CC: not in the path: the net is plugin " + plugin + (library.empty() ? "" : " (" + library + ")") +
         ", so no fault is survived. NCCL_NET_PLUGIN=none takes R2CC's net; R2CC_MODE=0 keeps the plugin without this "
         "line";
}

std::string notCoveredLine(const std::vector<std::string>& features) {
  if (features.empty()) return "";
  return "R2CC: passed through as stock, not protected: " + join(features);
}

}  // namespace r2cc
