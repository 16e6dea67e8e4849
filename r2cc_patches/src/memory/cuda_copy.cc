// DeviceCopy by the CUDA driver API. The driver is looked up at run time: the library must load where there is none.
//
// Why this cannot deadlock with NCCL's kernels: copies run on streams of our own, which do not wait for the default
// stream; copy engines need no multiprocessor; and nothing here synchronises. Only allocPinned and freePinned may wait
// for kernels, as CUDA documents. Every call runs in the GPU's primary context (the one NCCL and the frameworks use)
// and exempts itself from stream captures of other threads, which would otherwise be invalidated by it.
#include <cuda.h>
#include <dlfcn.h>

#include <map>
#include <mutex>
#include <vector>

#include "memory/device_copy.h"

namespace r2cc {
namespace {

struct Driver {
  decltype(&cuInit) init;
  decltype(&cuDeviceGet) deviceGet;
  decltype(&cuDeviceGetCount) deviceCount;
  decltype(&cuDevicePrimaryCtxRetain) retain;
  decltype(&cuDevicePrimaryCtxRelease) release;
  decltype(&cuCtxPushCurrent) push;
  decltype(&cuCtxPopCurrent) pop;
  decltype(&cuThreadExchangeStreamCaptureMode) captureMode;
  decltype(&cuPointerGetAttribute) pointerAttribute;
  decltype(&cuMemHostAlloc) hostAlloc;
  decltype(&cuMemFreeHost) hostFree;
  decltype(&cuMemcpyDtoHAsync) toHost;
  decltype(&cuMemcpyHtoDAsync) toDevice;
  decltype(&cuStreamCreate) streamCreate;
  decltype(&cuStreamDestroy) streamDestroy;
  decltype(&cuEventCreate) eventCreate;
  decltype(&cuEventDestroy) eventDestroy;
  decltype(&cuEventRecord) eventRecord;
  decltype(&cuEventQuery) eventQuery;
};

/// The ABI's names: cuda.h maps the plain ones to these.
bool load(void* library, Driver& d, std::string& why) {
  const auto find = [&](const char* symbol, auto& into) {
    into = reinterpret_cast<std::remove_reference_t<decltype(into)>>(dlsym(library, symbol));
    if (into == nullptr) why = std::string("libcuda.so.1 lacks ") + symbol;
    return into != nullptr;
  };
  return find("cuInit", d.init) && find("cuDeviceGet", d.deviceGet) && find("cuDeviceGetCount", d.deviceCount) &&
         find("cuDevicePrimaryCtxRetain", d.retain) && find("cuDevicePrimaryCtxRelease_v2", d.release) &&
         find("cuCtxPushCurrent_v2", d.push) && find("cuCtxPopCurrent_v2", d.pop) &&
         find("cuThreadExchangeStreamCaptureMode", d.captureMode) &&
         find("cuPointerGetAttribute", d.pointerAttribute) && find("cuMemHostAlloc", d.hostAlloc) &&
         find("cuMemFreeHost", d.hostFree) && find("cuMemcpyDtoHAsync_v2", d.toHost) &&
         find("cuMemcpyHtoDAsync_v2", d.toDevice) && find("cuStreamCreate", d.streamCreate) &&
         find("cuStreamDestroy_v2", d.streamDestroy) && find("cuEventCreate", d.eventCreate) &&
         find("cuEventDestroy_v2", d.eventDestroy) && find("cuEventRecord", d.eventRecord) &&
         find("cuEventQuery", d.eventQuery);
}

/// What one GPU needs, made at its first use.
struct Gpu {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUstream out = nullptr, in = nullptr;  // one a direction: GPUs have a copy engine for each
  std::vector<CUevent> idle;
};

/// In a GPU's context, and invisible to stream captures, for as long as it lives.
class Inside {
 public:
  Inside(const Driver& driver, const Gpu& gpu) : driver_(driver), ok_(driver.push(gpu.context) == CUDA_SUCCESS) {
    (void)driver_.captureMode(&mode_);
  }
  ~Inside() {
    (void)driver_.captureMode(&mode_);
    CUcontext ours = nullptr;
    if (ok_) (void)driver_.pop(&ours);
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  bool ok() const { return ok_; }

 private:
  const Driver& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  const bool ok_;
};

struct Copy {
  Gpu* gpu;
  CUevent event;
};

class CudaCopy final : public DeviceCopy {
 public:
  explicit CudaCopy(const Driver& driver) : d_(driver) {}
  ~CudaCopy() override;

  int deviceOf(const void* memory) override;
  void* allocPinned(size_t size) override;
  void freePinned(void* memory) override;
  void* toHost(int device, void* host, const void* gpu, size_t size) override {
    return start(device, [=](const Gpu& on) { return d_.toHost(host, address(gpu), size, on.out); }, &Gpu::out);
  }
  void* toDevice(int device, void* gpu, const void* host, size_t size) override {
    return start(device, [=](const Gpu& on) { return d_.toDevice(address(gpu), host, size, on.in); }, &Gpu::in);
  }
  State poll(void* copy) override;

 private:
  static CUdeviceptr address(const void* memory) { return reinterpret_cast<CUdeviceptr>(memory); }
  Gpu* gpu(int device);
  bool open(Gpu& gpu, int device) const;
  bool takeEvent(Gpu& gpu, CUevent* out);
  template <class Enqueue>
  void* start(int device, const Enqueue& enqueue, CUstream Gpu::* stream);

  const Driver d_;
  std::mutex mutex_;
  std::map<int, Gpu> gpus_;  // addresses of its values are stable
};

CudaCopy::~CudaCopy() {
  for (auto& [device, gpu] : gpus_) {
    if (gpu.context == nullptr) continue;
    {
      const Inside inside(d_, gpu);
      for (CUevent event : gpu.idle) (void)d_.eventDestroy(event);
      (void)d_.streamDestroy(gpu.out);
      (void)d_.streamDestroy(gpu.in);
    }
    (void)d_.release(gpu.device);
  }
}

int CudaCopy::deviceOf(const void* memory) {
  unsigned type = 0;
  int device = -1;
  if (d_.pointerAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address(memory)) != CUDA_SUCCESS) return -1;
  if (type != CU_MEMORYTYPE_DEVICE) return -1;
  if (d_.pointerAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address(memory)) != CUDA_SUCCESS) return -1;
  const std::lock_guard<std::mutex> lock(mutex_);
  return gpu(device) == nullptr ? -1 : device;
}

/// Under the mutex. Null when the GPU cannot be used.
Gpu* CudaCopy::gpu(int device) {
  Gpu& gpu = gpus_[device];
  if (gpu.context == nullptr && !open(gpu, device)) return nullptr;
  return &gpu;
}

bool CudaCopy::open(Gpu& gpu, int device) const {
  CUcontext context = nullptr;
  if (d_.deviceGet(&gpu.device, device) != CUDA_SUCCESS) return false;
  if (d_.retain(&context, gpu.device) != CUDA_SUCCESS) return false;
  gpu.context = context;
  const Inside inside(d_, gpu);
  if (inside.ok() && d_.streamCreate(&gpu.out, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
      d_.streamCreate(&gpu.in, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS) {
    return true;
  }
  (void)d_.release(gpu.device);
  gpu.context = nullptr;
  return false;
}

/// Pinned for every GPU, whichever context it was made in.
void* CudaCopy::allocPinned(size_t size) {
  Gpu* any = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    any = gpu(gpus_.empty() ? 0 : gpus_.begin()->first);
  }
  if (any == nullptr) return nullptr;
  const Inside inside(d_, *any);
  void* memory = nullptr;
  return d_.hostAlloc(&memory, size, CU_MEMHOSTALLOC_PORTABLE) == CUDA_SUCCESS ? memory : nullptr;
}

void CudaCopy::freePinned(void* memory) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (gpus_.empty()) return;
  const Inside inside(d_, gpus_.begin()->second);
  (void)d_.hostFree(memory);
}

bool CudaCopy::takeEvent(Gpu& gpu, CUevent* out) {
  if (gpu.idle.empty()) return d_.eventCreate(out, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS;
  *out = gpu.idle.back();
  gpu.idle.pop_back();
  return true;
}

template <class Enqueue>
void* CudaCopy::start(int device, const Enqueue& enqueue, CUstream Gpu::* stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Gpu* on = gpu(device);
  if (on == nullptr) return nullptr;
  const Inside inside(d_, *on);
  CUevent event = nullptr;
  if (!inside.ok() || !takeEvent(*on, &event)) return nullptr;
  if (enqueue(*on) == CUDA_SUCCESS && d_.eventRecord(event, on->*stream) == CUDA_SUCCESS) return new Copy{on, event};
  on->idle.push_back(event);
  return nullptr;
}

DeviceCopy::State CudaCopy::poll(void* opaque) {
  auto* copy = static_cast<Copy*>(opaque);
  const std::lock_guard<std::mutex> lock(mutex_);
  const Inside inside(d_, *copy->gpu);
  const CUresult result = d_.eventQuery(copy->event);
  if (result == CUDA_ERROR_NOT_READY) return State::Running;
  copy->gpu->idle.push_back(copy->event);
  delete copy;
  return result == CUDA_SUCCESS ? State::Done : State::Failed;
}

}  // namespace

std::unique_ptr<DeviceCopy> cudaDeviceCopy(std::string& why) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);  // stays: the driver has threads of its own
  if (library == nullptr) {
    const char* error = dlerror();
    why = error == nullptr ? "libcuda.so.1 cannot be loaded" : error;
    return nullptr;
  }
  Driver driver{};
  if (!load(library, driver, why)) return nullptr;
  int count = 0;
  if (driver.init(0) != CUDA_SUCCESS || driver.deviceCount(&count) != CUDA_SUCCESS || count == 0) {
    why = "the CUDA driver finds no GPU";
    return nullptr;
  }
  return std::make_unique<CudaCopy>(driver);
}

}  // namespace r2cc
