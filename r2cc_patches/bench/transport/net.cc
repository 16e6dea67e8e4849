#include "bench/transport/net.h"

#include <dlfcn.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "bench/errors.h"
#include "bench/ranks/frame.h"

namespace r2cc::bench {
namespace {

using GetNet = const void* (*)(const char* inner);

// NCCL hands plugins its logger; ours prints warnings, and all but traces with NCCL_DEBUG=INFO, to stderr.
void logToStderr(ncclDebugLogLevel level, unsigned long, const char* file, int line, const char* format, ...) {
  const char* wanted = std::getenv("NCCL_DEBUG");
  const bool info = wanted != nullptr && std::strcmp(wanted, "INFO") == 0;
  if (level != NCCL_LOG_WARN && !(info && level == NCCL_LOG_INFO)) return;
  char message[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(message, sizeof(message), format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "%s:%d %s\n", file, line, message);
}

// The table of the NCCL that this is compiled with.
#ifdef NET_V12_H_
constexpr const char* kPlugin = "ncclNetPlugin_v12";
#else
constexpr const char* kPlugin = "ncclNetPlugin_v11";
#endif

ncclResult_t noProfiler(void**, int, void*, int64_t, void*) { return ncclSuccess; }

}  // namespace

const ncclNet_t& loadTable(const std::string& library, NetKind kind) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    throw TransportError("cannot load the net library: " + std::string(why != nullptr ? why : library.c_str()));
  }
  const char* inner = kind == NetKind::Ib ? "IB" : "Socket";
  const void* table = nullptr;
  if (void* symbol = dlsym(handle, "r2ccNetGet")) {
    GetNet get = nullptr;
    std::memcpy(&get, &symbol, sizeof(get));
    table = get(inner);
  } else {
    table = dlsym(handle, kPlugin);
  }
  if (table == nullptr) throw TransportError(library + " offers no " + inner + " transport (" + kPlugin + ")");
  return *static_cast<const ncclNet_t*>(table);
}

std::string buildOf(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return "";
  const auto* said = static_cast<const char*>(dlsym(handle, "r2ccBuildId"));
  if (said != nullptr && std::strcmp(said, "made by hand") != 0) return said;
  std::ifstream in(library, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  return std::to_string(nonceOf(bytes));
}

void checkNet(ncclResult_t result, const char* call, int peer, int connection) {
  if (result == ncclSuccess) return;
  throw TransportError(std::string(call) + " failed with NCCL result " + std::to_string(result), peer, connection);
}

Net::Net(const ncclNet_t& table, uint64_t commId, int merge) : table_(&table) {
  checkNet(table_->init(&context_, commId, &config_, logToStderr, noProfiler), "init");
  readNics();
  if (merge > 1) mergeNics(merge);
}

Net::~Net() {
  if (context_ != nullptr && table_->finalize != nullptr) (void)table_->finalize(context_);
}

void Net::readNics() {
  int count = 0;
  checkNet(table_->devices(&count), "devices");
  if (count <= 0) throw TransportError("the transport found no NIC; look at NCCL_SOCKET_IFNAME or NCCL_IB_HCA");
  for (int device = 0; device < count; device++) {
    nics_.push_back(nicOf(device));
  }
}

NicInfo Net::nicOf(int device) const {
  ncclNetProperties_t properties{};
  checkNet(table_->getProperties(device, &properties), "getProperties");
  if ((properties.ptrSupport & NCCL_PTR_HOST) == 0) throw TransportError("the transport cannot use host memory");
  return {properties.name != nullptr ? properties.name : std::to_string(device), properties.speed, device};
}

// NCCL does this from its topology (graph/topo.cc); the virtual devices follow the others in the transport's table.
void Net::mergeNics(int merge) {
  if (table_->makeVDevice == nullptr)
    throw TransportError("the transport cannot merge NICs (R2CC_MODE 1-3 never does)");
  std::vector<NicInfo> merged;
  for (size_t first = 0; first < nics_.size(); first += static_cast<size_t>(merge)) {
    ncclNetVDeviceProps_t parts{};
    for (size_t i = first; i < nics_.size() && parts.ndevs < merge; i++) parts.devs[parts.ndevs++] = nics_[i].device;
    int device = 0;
    checkNet(table_->makeVDevice(&device, &parts), "makeVDevice");
    merged.push_back(nicOf(device));
  }
  nics_ = std::move(merged);
}

void Net::announce(Op op, int ranks, int flowsPerPeer) const {
  if (table_->setNetAttr == nullptr) return;
  ncclNetAttr_t attributes = NCCL_NET_ATTR_INIT;
  const bool ring = op == Op::AllReduce;
  attributes.sendCommAttr.minConcurrentPeers = attributes.recvCommAttr.minConcurrentPeers = 1;
  attributes.sendCommAttr.minFlowsPerPeer = attributes.recvCommAttr.minFlowsPerPeer = 1;
  attributes.sendCommAttr.maxConcurrentPeers = attributes.recvCommAttr.maxConcurrentPeers = ranks;
  attributes.sendCommAttr.maxFlowsPerPeer = attributes.recvCommAttr.maxFlowsPerPeer = flowsPerPeer;
  if (!ring) attributes.op = (1u << ncclFuncSend) | (1u << ncclFuncRecv);  // NCCL leaves op open for ring and tree
  checkNet(table_->setNetAttr(context_, &attributes), "setNetAttr");
}

void Net::finalize() {
  if (table_->finalize != nullptr) checkNet(table_->finalize(context_), "finalize");
  context_ = nullptr;
}

std::string defaultLibrary() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
  if (length < 0) throw TransportError("cannot find the program's own path; use --library");
  const std::string program(path, static_cast<size_t>(length));
  return program.substr(0, program.rfind('/') + 1) + "libr2cc_net.so";
}

}  // namespace r2cc::bench
