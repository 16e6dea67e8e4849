#include "net/last_resort.h"

#include <algorithm>

#include "memory/device_copy.h"

extern ncclNet_t ncclNetSocket;

namespace r2cc {
namespace {
constexpr int kStagedMessages = 16;  // per buffer NCCL registers: twice its slots
constexpr size_t kSlots = 8;         // into which NCCL cuts such a buffer
}  // namespace

struct LastResort::Net {
  Net() = default;
  Net(const Net&) = delete;
  Net& operator=(const Net&) = delete;
  ~Net() {
    staged.reset();
    if (ctx != nullptr) (void)ncclNetSocket.finalize(ctx);
  }

  void* ctx = nullptr;
  std::unique_ptr<StagedNet> staged;
};

std::unique_ptr<LastResort> LastResort::make(const Config& config, const Init& init, const std::vector<LocalNic>& nics,
                                             const Warn& warn) {
  const std::string& name = config.lastResort;
  if (name.empty()) return nullptr;
  const auto refuse = [&](const std::string& why) {
    warn("R2CC: R2CC_LAST_RESORT_IFNAME=" + name + " " + why + ": there is no last resort");
    return nullptr;
  };
  const auto same = [&](const LocalNic& nic) { return nic.name == name; };
  if (std::any_of(nics.begin(), nics.end(), same)) return refuse("is used for data already");
  if (nics.size() >= kMaxNics) return refuse("would be one NIC too many");
  std::unique_ptr<LastResort> out(new LastResort);
  out->net_ = std::make_shared<Net>();
  Net& own = *out->net_;
  if (ncclNetSocket.init(&own.ctx, init.commId, init.config, init.log, init.profiler) != ncclSuccess) {
    own.ctx = nullptr;
    return refuse("needs the socket transport, which cannot start");
  }
  InnerNet net{&ncclNetSocket, innerOps(&ncclNetSocket)};
  const int dev = net.ops->hiddenDevice(name.c_str());
  if (dev < 0) return refuse("is no interface with an address");
  void* ctx = own.ctx;
  std::string why;  // no CUDA here: then no buffer is in GPU memory
  if (auto copies = cudaDeviceCopy(why)) {
    own.staged = std::make_unique<StagedNet>(net, std::move(copies), warn);
    net = own.staged->net();
    ctx = own.staged->context(own.ctx);
  }
  out->nic_ = findLocalNic(name, static_cast<uint8_t>(nics.size()), kLastResort);
  out->nic_.inner = net;
  out->nic_.dev = dev;
  out->nic_.ctx = ctx;
  out->nic_.keeps = out->net_;
  return out;
}

void LastResort::warnThrough(const Warn& warn) {
  if (net_->staged != nullptr) net_->staged->warnThrough(warn);
}

void LastResort::expect(size_t bytes) {
  if (net_->staged != nullptr) net_->staged->reserve(bytes / kSlots, kStagedMessages);
}

}  // namespace r2cc
