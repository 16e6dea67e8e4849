#include "announce.h"

#include <mutex>
#include <string>
#include <vector>

#include "debug.h"
#include "net/in_path.h"
#include "net/net_process.h"
#include "net/r2cc_net.h"
#include "plugin.h"
#include "settings.h"

namespace r2cc {
namespace {

/// Another plugin's net is of no matter where no connection leaves the host. Once a process: frameworks make dozens of
/// communicators.
void warnOutOfPath(const ncclComm& comm) {
  static std::once_flag once;
  if (comm.nNodes < 2 || comm.ncclNet->name == std::string(kPluginName)) return;
  std::call_once(once, [&comm] {
    const char* library = ncclPluginLibPaths[ncclPluginTypeNet];
    WARN("%s", outOfPathLine(comm.ncclNet->name, library == nullptr ? "" : library).c_str());
  });
}

std::vector<std::string> notCovered(const ncclComm& comm) {
  std::vector<std::string> features;
  if (comm.globalGinSupport != NCCL_GIN_CONNECTION_NONE) features.emplace_back("GIN (device API over the network)");
  if (comm.globalRmaProxySupport) features.emplace_back("RMA (put and signal over the network)");
  if (comm.ncclCollNet != nullptr && comm.config.collnetEnable == 1) {
    features.emplace_back(std::string("CollNet (") + comm.ncclCollNet->name + ")");
  }
  return features;
}

}  // namespace

void announce(const ncclComm& comm) {
  if (comm.rank != 0 || schedules::Settings::get().mode == 0) return;
  if (!r2ccWraps(comm.ncclNet)) return warnOutOfPath(comm);
  NetProcess::instance().sayInPath();
  const std::string line = notCoveredLine(notCovered(comm));
  if (!line.empty()) INFO(NCCL_INIT | NCCL_NET, "%s", line.c_str());
}

}  // namespace r2cc
