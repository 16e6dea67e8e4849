// The transport under test: an ncclNet_t table from a shared library, initialised as NCCL does it.
#pragma once

#include <string>
#include <vector>

#include "bench/options.h"
#include "nccl_net.h"

namespace r2cc::bench {

struct NicInfo {
  std::string name;
  int speedMbps = 0;
  int device = 0;  // its number in the transport's table
};

class Net {
 public:
  // Initialises the transport and reads its NICs; joins `merge` in a row into one each. Throws TransportError.
  Net(const ncclNet_t& table, uint64_t commId, int merge = 1);
  ~Net();
  Net(const Net&) = delete;
  Net& operator=(const Net&) = delete;

  const ncclNet_t& table() const { return *table_; }
  void* context() const { return context_; }
  const std::vector<NicInfo>& nics() const { return nics_; }

  // Tells the transport what the next connections are for, as NCCL does before each connect.
  void announce(Op op, int ranks, int flowsPerPeer) const;
  void finalize();

 private:
  void readNics();
  void mergeNics(int merge);
  NicInfo nicOf(int device) const;

  const ncclNet_t* table_;
  void* context_ = nullptr;
  ncclNetCommConfig_t config_{NCCL_NET_TRAFFIC_CLASS_UNDEF};
  std::vector<NicInfo> nics_;
};

// Loads `library` and asks r2ccNetGet() for the transport, or takes the plugin symbol of our NCCL. The library
// stays loaded for the life of the process: its own threads may outlive us. Throws TransportError.
const ncclNet_t& loadTable(const std::string& library, NetKind kind);

// libr2cc_net.so in the directory of the running program.
std::string defaultLibrary();

// Which build it is, as it says itself; else what its bytes come to. Empty: it cannot be loaded, which loadTable()
// tells.
std::string buildOf(const std::string& library);

// Throws TransportError that names the call and the code unless the result is ncclSuccess.
void checkNet(ncclResult_t result, const char* call, int peer = -1, int connection = -1);

}  // namespace r2cc::bench
