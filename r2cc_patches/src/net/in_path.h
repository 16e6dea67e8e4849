// Lines in NCCL's log that answer "is R2CC in the path, and of what?".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace r2cc {

/// What NCCL calls our plugin: NCCL_NET=R2CC asks for it.
constexpr const char* kPluginName = "R2CC";

struct InPath {
  std::string build;
  int mode = 0;
  std::string net;  // the inner one: IB, Socket
  std::vector<std::string> nics;
  size_t protectedNics = 0;
  uint64_t connections = 0;  // of this process so far, both directions
  uint64_t protectedConnections = 0;
};

/// "R2CC: in the path: build ..., R2CC_MODE=1, net Socket, NICs eth0, eth1 (all protected), ...". Connections are made
/// when the first operation needs them: until then there are none to count.
std::string inPathLine(const InPath& path);

/// Another plugin has the net. `library`: its file, where that is known.
std::string outOfPathLine(const std::string& plugin, const std::string& library);

/// What a communicator has that does not go through the net's table; empty for nothing.
std::string notCoveredLine(const std::vector<std::string>& features);

}  // namespace r2cc
