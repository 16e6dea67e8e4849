// The calls of libibverbs that this library takes over. A program that is linked with libibverbs finds them because
// they are preloaded; one that loads it (as NCCL does) because they are the answer when it looks them up. What posts
// and polls is inline and goes through the context: opening a device puts ours there.
#include <dlfcn.h>
#include <ibvcore.h>
#include <pthread.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <utility>

#include "faults/verbs/kernel_calls.h"
#include "faults/verbs/library.h"
#include "faults/verbs/loader.h"
#include "faults/watcher.h"

#define R2CC_CALL extern "C" __attribute__((visibility("default")))

namespace {

using r2cc::faults::Device;
using r2cc::faults::DriverCalls;
using r2cc::faults::realVerbs;
using r2cc::faults::VerbsCall;

Device* deviceOf(const ibv_context* context) { return r2cc::faults::devices().of(context); }

int pollCq(ibv_cq* cq, int room, ibv_wc* out) {
  Device* const device = deviceOf(cq->context);
  return device->active() ? device->poll(cq, room, out) : device->driver().pollCq(cq, room, out);
}

int errorOf(VerbsCall call, const ibv_context* context, const ibv_qp* qp = nullptr) {
  Device* const device = deviceOf(context);
  return device != nullptr && device->active() ? device->errorOf(call, qp) : 0;
}

int postSend(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) {
  if (const int error = errorOf(VerbsCall::PostSend, qp->context, qp)) return *bad = wr, error;
  return deviceOf(qp->context)->driver().postSend(qp, wr, bad);
}

int postRecv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  if (const int error = errorOf(VerbsCall::PostRecv, qp->context, qp)) return *bad = wr, error;
  return deviceOf(qp->context)->driver().postRecv(qp, wr, bad);
}

/// What the library does, unless it has to fail: then there is nothing, and errno says why.
template <typename Function, typename... Arguments>
auto made(VerbsCall call, const char* name, Function* ours, const ibv_context* context, Arguments... arguments)
    -> decltype(ours(arguments...)) {
  auto* const real = realVerbs(name, ours);
  const int error = real == nullptr ? ENOSYS : errorOf(call, context);
  if (error == 0) return real(arguments...);
  errno = error;
  return nullptr;
}

}  // namespace

R2CC_CALL ibv_context* ibv_open_device(ibv_device* device) {
  auto* const real = realVerbs("ibv_open_device", ibv_open_device);
  if (real == nullptr) return errno = ENOSYS, nullptr;
  ibv_context* const context = real(device);
  if (context == nullptr || !r2cc::faults::wanted()) return context;
  r2cc::faults::watch();
  const auto modifyQp = reinterpret_cast<decltype(DriverCalls::modifyQp)>(realVerbs("ibv_modify_qp"));
  r2cc::faults::devices().open(context, {pollCq, postSend, postRecv, nullptr}, modifyQp);
  return context;
}

R2CC_CALL int ibv_close_device(ibv_context* context) {
  auto* const real = realVerbs("ibv_close_device", ibv_close_device);
  if (real == nullptr) return ENOSYS;
  r2cc::faults::devices().close(context);
  return real(context);
}

R2CC_CALL ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  return made(VerbsCall::CreateQp, "ibv_create_qp", ibv_create_qp, pd->context, pd, attr);
}

R2CC_CALL int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  auto* const real = realVerbs("ibv_modify_qp", ibv_modify_qp);
  if (real == nullptr) return ENOSYS;
  if (const int error = errorOf(VerbsCall::ModifyQp, qp->context, qp)) return error;
  const int result = real(qp, attr, mask);
  Device* const device = deviceOf(qp->context);
  if (result == 0 && device != nullptr) device->modified(qp, *attr, mask);
  return result;
}

R2CC_CALL int ibv_destroy_qp(ibv_qp* qp) {
  auto* const real = realVerbs("ibv_destroy_qp", ibv_destroy_qp);
  if (real == nullptr) return ENOSYS;
  if (Device* const device = deviceOf(qp->context)) device->forget(qp);
  return real(qp);
}

R2CC_CALL int ibv_destroy_cq(ibv_cq* cq) {
  auto* const real = realVerbs("ibv_destroy_cq", ibv_destroy_cq);
  if (real == nullptr) return ENOSYS;
  if (Device* const device = deviceOf(cq->context)) device->forget(cq);
  return real(cq);
}

R2CC_CALL ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t length, int access) {
  return made(VerbsCall::RegMr, "ibv_reg_mr", ibv_reg_mr, pd->context, pd, address, length, access);
}

R2CC_CALL ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t length, uint64_t iova, unsigned access) {
  return made(VerbsCall::RegMr, "ibv_reg_mr_iova2", ibv_reg_mr_iova2, pd->context, pd, address, length, iova, access);
}

R2CC_CALL ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access) {
  return made(VerbsCall::RegMr, "ibv_reg_dmabuf_mr", ibv_reg_dmabuf_mr, pd->context, pd, offset, length, iova, fd,
              access);
}

namespace {

void* oursFor(const char* name) {
  static const std::array<std::pair<const char*, void*>, 9> all = {{
      {"ibv_open_device", reinterpret_cast<void*>(ibv_open_device)},
      {"ibv_close_device", reinterpret_cast<void*>(ibv_close_device)},
      {"ibv_create_qp", reinterpret_cast<void*>(ibv_create_qp)},
      {"ibv_modify_qp", reinterpret_cast<void*>(ibv_modify_qp)},
      {"ibv_destroy_qp", reinterpret_cast<void*>(ibv_destroy_qp)},
      {"ibv_destroy_cq", reinterpret_cast<void*>(ibv_destroy_cq)},
      {"ibv_reg_mr", reinterpret_cast<void*>(ibv_reg_mr)},
      {"ibv_reg_mr_iova2", reinterpret_cast<void*>(ibv_reg_mr_iova2)},
      {"ibv_reg_dmabuf_mr", reinterpret_cast<void*>(ibv_reg_dmabuf_mr)},
  }};
  if (std::strncmp(name, "ibv_", 4) != 0) return nullptr;
  const auto its = [name](const auto& one) { return std::strcmp(one.first, name) == 0; };
  const auto* const found = std::find_if(all.begin(), all.end(), its);
  return found == all.end() ? nullptr : found->second;
}

using LookUp = void*(void*, const char*) noexcept;
using LookUpVersion = void*(void*, const char*, const char*) noexcept;

/// Whether this look-up is in a library: all others find ours by themselves.
void* oursIn(void* handle, const char* name) {
  void* const ours = handle == RTLD_DEFAULT || handle == RTLD_NEXT ? nullptr : oursFor(name);
  return ours != nullptr && r2cc::faults::wanted() ? ours : nullptr;
}

}  // namespace

/// New queues belong to the descriptor that the kernel made for the device's events, which is behind ours.
R2CC_CALL int ioctl(int fd, unsigned long request, ...) noexcept {
  static const auto real = reinterpret_cast<int (*)(int, unsigned long, void*)>(dlsym(RTLD_NEXT, "ioctl"));
  va_list arguments;
  va_start(arguments, request);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  if (request != RDMA_VERBS_IOCTL || argument == nullptr) return real(fd, request, argument);
  ib_uverbs_attr* const eventFd = r2cc::faults::eventFdOf(*static_cast<ib_uverbs_ioctl_hdr*>(argument));
  const int kernels = eventFd == nullptr ? -1 : r2cc::faults::devices().kernelsFd(static_cast<int>(eventFd->data_s64));
  if (kernels < 0) return real(fd, request, argument);
  const auto before = eventFd->data_s64;
  eventFd->data_s64 = kernels;
  const int result = real(fd, request, argument);
  eventFd->data_s64 = before;
  return result;
}

// Both end in a jump to libc's, not in a call of it: RTLD_NEXT asks who called.

R2CC_CALL void* dlsym(void* handle, const char* name) noexcept {
  static const auto real = reinterpret_cast<LookUp*>(r2cc::faults::loadersOwn("dlsym"));
  void* const ours = oursIn(handle, name);
  if (ours == nullptr || real(handle, name) == nullptr) return real(handle, name);
  r2cc::faults::setVerbsLibrary(handle);
  return ours;
}

R2CC_CALL void* dlvsym(void* handle, const char* name, const char* version) noexcept {
  static const auto real = reinterpret_cast<LookUpVersion*>(r2cc::faults::loadersOwn("dlvsym"));
  void* const ours = oursIn(handle, name);
  if (ours == nullptr || real(handle, name, version) == nullptr) return real(handle, name, version);
  r2cc::faults::setVerbsLibrary(handle);
  return ours;
}
