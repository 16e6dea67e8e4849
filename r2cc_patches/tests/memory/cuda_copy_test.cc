// Copies by the real driver where there is a GPU; elsewhere, that its absence is said.
#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "check.h"
#include "memory/device_copy.h"
#include "memory/staging.h"
#include "rig/socket_pair.h"

using namespace r2cc;
using namespace r2cc::fake;

namespace {

/// Spins on the GPU until the host writes *flag.
constexpr char kSpin[] = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 flag) {
  .reg .u64 %a; .reg .u32 %v; .reg .pred %p;
  ld.param.u64 %a, [flag];
again:
  ld.volatile.u32 %v, [%a];
  setp.eq.u32 %p, %v, 0;
  @%p bra again;
  ret;
})";

template <class Function>
Function symbol(const char* name) {
  return reinterpret_cast<Function>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), name));
}

struct Cuda {
  decltype(&cuMemAlloc) alloc = symbol<decltype(&cuMemAlloc)>("cuMemAlloc_v2");
  decltype(&cuMemFree) free = symbol<decltype(&cuMemFree)>("cuMemFree_v2");
  decltype(&cuDevicePrimaryCtxRetain) retain = symbol<decltype(&cuDevicePrimaryCtxRetain)>("cuDevicePrimaryCtxRetain");
  decltype(&cuCtxSetCurrent) setCurrent = symbol<decltype(&cuCtxSetCurrent)>("cuCtxSetCurrent");
  decltype(&cuModuleLoadData) load = symbol<decltype(&cuModuleLoadData)>("cuModuleLoadData");
  decltype(&cuModuleGetFunction) function = symbol<decltype(&cuModuleGetFunction)>("cuModuleGetFunction");
  decltype(&cuLaunchKernel) launch = symbol<decltype(&cuLaunchKernel)>("cuLaunchKernel");
  decltype(&cuCtxSynchronize) synchronize = symbol<decltype(&cuCtxSynchronize)>("cuCtxSynchronize");
};

/// A kernel that spins for as long as this lives, as NCCL's do while they wait for messages.
class Spinning {
 public:
  Spinning(const Cuda& cuda, DeviceCopy& copies) : cuda_(cuda), copies_(copies) {
    flag_ = static_cast<uint32_t*>(copies.allocPinned(4096));
    *flag_ = 0;
    CHECK_EQ(cuda.load(&module_, kSpin), CUDA_SUCCESS);
    CHECK_EQ(cuda.function(&spin_, module_, "spin"), CUDA_SUCCESS);
    void* argument = flag_;
    void* arguments[] = {&argument};
    CHECK_EQ(cuda.launch(spin_, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr), CUDA_SUCCESS);
  }
  ~Spinning() {
    __atomic_store_n(flag_, 1, __ATOMIC_SEQ_CST);
    CHECK_EQ(cuda_.synchronize(), CUDA_SUCCESS);
    copies_.freePinned(flag_);
  }
  Spinning(const Spinning&) = delete;
  Spinning& operator=(const Spinning&) = delete;

 private:
  const Cuda& cuda_;
  DeviceCopy& copies_;
  uint32_t* flag_;
  CUmodule module_ = nullptr;
  CUfunction spin_ = nullptr;
};

/// Two pieces of GPU memory in the primary context.
struct Memory {
  explicit Memory(const Cuda& cuda) : cuda(cuda) {
    CUcontext context = nullptr;
    CHECK_EQ(cuda.retain(&context, 0), CUDA_SUCCESS);
    CHECK_EQ(cuda.setCurrent(context), CUDA_SUCCESS);
    for (CUdeviceptr& at : all) CHECK_EQ(cuda.alloc(&at, kSize), CUDA_SUCCESS);
  }
  ~Memory() {
    for (CUdeviceptr at : all) CHECK_EQ(cuda.free(at), CUDA_SUCCESS);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): CUDA gives addresses as numbers
  void* operator[](size_t i) const { return reinterpret_cast<void*>(all[i]); }
  static constexpr size_t kSize = 1 << 20;
  const Cuda& cuda;
  CUdeviceptr all[2] = {};
};

bool ends(DeviceCopy& copies, void* copy) {
  if (copy == nullptr) return false;
  const int64_t limit = nowNs() + msToNs(5000);
  DeviceCopy::State state = DeviceCopy::State::Running;
  while (state == DeviceCopy::State::Running && nowNs() < limit) state = copies.poll(copy);
  return state == DeviceCopy::State::Done;
}

/// Host to GPU and back, checked; how long both took, in ns, or -1.
int64_t roundTrip(DeviceCopy& copies, void* gpu, uint8_t* host, size_t size, uint8_t value) {
  memset(host, value, size);
  const int64_t start = nowNs();
  if (!ends(copies, copies.toDevice(0, gpu, host, size))) return -1;
  memset(host, 0, size);
  if (!ends(copies, copies.toHost(0, host, gpu, size))) return -1;
  const int64_t took = nowNs() - start;
  for (size_t i = 0; i < size; i++) {
    if (host[i] != value) return -1;
  }
  return took;
}

}  // namespace

TEST(net_cuda_copy) {
  std::string why;
  const std::unique_ptr<DeviceCopy> copies = cudaDeviceCopy(why);
  CHECK_EQ(copies == nullptr, !why.empty());
  if (copies == nullptr) return (void)std::fprintf(stderr, "skipped: %s\n", why.c_str());
  const Cuda cuda;
  const Memory gpu(cuda);
  auto* host = static_cast<uint8_t*>(copies->allocPinned(Memory::kSize));
  CHECK(host != nullptr);
  CHECK_EQ(copies->deviceOf(gpu[0]), 0);
  CHECK_EQ(copies->deviceOf(host), -1);
  CHECK_EQ(copies->deviceOf(&why), -1);
  CHECK(roundTrip(*copies, gpu[0], host, Memory::kSize, 17) > 0);
  {
    const Spinning kernel(cuda, *copies);
    const int64_t took = roundTrip(*copies, gpu[0], host, Memory::kSize, 99);
    CHECK(took > 0);
    std::fprintf(stderr, "1 MiB to the GPU and back beside a spinning kernel: %.0f us\n",
                 static_cast<double>(took) / 1e3);
  }
  copies->freePinned(host);
}

// From GPU to GPU memory over real sockets while a kernel spins: nothing of it may wait for that kernel.
TEST(net_cuda_staging_over_sockets) {
  std::string why;
  std::unique_ptr<DeviceCopy> owned = cudaDeviceCopy(why);
  if (owned == nullptr) return (void)std::fprintf(stderr, "skipped: %s\n", why.c_str());
  DeviceCopy& copies = *owned;
  const Cuda cuda;
  const Memory gpu(cuda);
  std::vector<uint8_t> expected(Memory::kSize), got(Memory::kSize);
  StagedNet staged(socketNet(), std::move(owned), nullptr);
  CommPair pair(staged.net(), staged.context(nullptr), 0, 0);
  CHECK(pair.connected());
  void* mrs[2] = {};
  CHECK_EQ(pair.net.net->regMr(pair.sender, gpu[0], Memory::kSize, NCCL_PTR_CUDA, &mrs[0]), ncclSuccess);
  CHECK_EQ(pair.net.net->regMr(pair.receiver, gpu[1], Memory::kSize, NCCL_PTR_CUDA, &mrs[1]), ncclSuccess);
  staged.reserve(Memory::kSize, 2);
  std::thread later;
  const size_t reserved = staged.pinnedBytes();
  CHECK_EQ(reserved, 2 * Memory::kSize);
  {
    const Spinning kernel(cuda, copies);
    for (int i = 1; i <= 100; i++) {
      const size_t size = Memory::kSize / static_cast<size_t>(i);
      std::fill(expected.begin(), expected.end(), static_cast<uint8_t>(i));
      CHECK(ends(copies, copies.toDevice(0, gpu[0], expected.data(), Memory::kSize)));
      CHECK(pair.pass(gpu[0], gpu[1], size, mrs[0], mrs[1]));
      CHECK(ends(copies, copies.toHost(0, got.data(), gpu[1], Memory::kSize)));
      CHECK(std::equal(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(size), expected.begin()));
    }
    CHECK_EQ(staged.pinnedBytes(), reserved);
    std::atomic<bool> pinned{false};
    std::thread pinner([&] {
      void* more = copies.allocPinned(Memory::kSize);
      pinned = true;
      if (more != nullptr) copies.freePinned(more);
    });
    (void)spin(msToNs(2000), [&] { return pinned.load(); });
    std::fprintf(stderr, "pinning memory beside a spinning kernel %s\n", pinned ? "is fine here" : "waits for it");
    later = std::move(pinner);
  }
  later.join();
  for (size_t i = 0; i < 2; i++) {
    CHECK_EQ(pair.net.net->deregMr(i == 0 ? pair.sender : pair.receiver, mrs[i]), ncclSuccess);
  }
}
