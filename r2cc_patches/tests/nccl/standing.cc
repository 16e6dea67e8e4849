#include "nccl/standing.h"

#include <cstdlib>
#include <cstring>

#include "comm.h"
#include "profiler.h"
#include "proxy.h"
#include "settings.h"

namespace r2cc::nccl::test {

Standing& standing() {
  static Standing the;
  return the;
}

}  // namespace r2cc::nccl::test

using r2cc::nccl::test::standing;

namespace r2cc::schedules {

const Settings& Settings::get() {
  thread_local Settings settings;
  settings.mode = standing().mode;
  settings.schedule = standing().schedule;
  return settings;
}

}  // namespace r2cc::schedules

ncclResult_t ncclStrongStreamSynchronize(ncclStrongStream* /*stream*/) {
  const uint32_t* const flag = standing().abortFlag;
  if (flag != nullptr && *flag != 0) standing().synchronizedAborted++;
  return ncclSuccess;
}
ncclResult_t ncclProxyStop(ncclComm* /*comm*/) { return ncclSuccess; }
thread_local ncclProfilerApiState_t ncclProfilerApiState;
ncclResult_t ncclProfilerStopGroupApiEvent() { return ncclSuccess; }
ncclResult_t ncclProfilerRecordGroupApiEventState(ncclProfilerEventState_t /*state*/) { return ncclSuccess; }
ncclResult_t ncclEnvPluginInit() { return ncclSuccess; }
bool ncclEnvPluginInitialized() { return true; }
const char* ncclEnvPluginGetEnv(const char* name) { return getenv(name); }
int64_t ncclParamGraphStreamOrdering() { return NCCL_CONFIG_UNDEF_INT; }  // from 2.30 on

extern "C" {

cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
cudaError_t cudaSetDevice(int /*device*/) { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t /*error*/) { return "CUDA stands still"; }
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* /*mode*/) { return cudaSuccess; }
cudaError_t cudaHostAlloc(void** memory, size_t size, unsigned /*flags*/) {
  *memory = calloc(1, size);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) { return free(memory), cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int* /*value*/, cudaDeviceAttr /*which*/, int /*device*/) {
  standing().childrenBegun++;
  return cudaErrorNoDevice;
}

}  // extern "C"
