// What the fork's transports expect from the rest of NCCL, for the library that holds no rest of NCCL. There is no GPU
// behind it: device queries fail the way CUDA says "no device", and every buffer is host memory.

#include <cuda_runtime.h>

#include <cstdlib>

#include "nccl.h"

extern "C" {
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) { return "no CUDA in the stand-alone R2CC net library"; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int*, cudaDeviceAttr, int) { return cudaErrorNoDevice; }
cudaError_t cudaDeviceGetPCIBusId(char*, int, int) { return cudaErrorNoDevice; }
// NCCL 2.30 registers shared memory in a file that holds its sockets, too.
cudaError_t cudaHostRegister(void*, size_t, unsigned) { return cudaErrorNoDevice; }
cudaError_t cudaHostUnregister(void*) { return cudaErrorNoDevice; }
cudaError_t cudaHostGetDevicePointer(void**, void*, unsigned) { return cudaErrorNoDevice; }
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaErrorNoDevice; }
}

bool ncclEnvPluginInitialized() { return true; }
const char* ncclEnvPluginGetEnv(const char* name) { return getenv(name); }
ncclResult_t ncclInitEnv() { return ncclSuccess; }
int ncclParamSetCpuStackSize() { return 0; }
