// The net tables that NCCL looks for in a plugin, v8 to v12, in our own words: layouts are facts of the binaries that
// call them. NCCL takes the newest it knows:
//
//   v8   2.19 to 2.23   sizes are int; init without a context; no finalize
//   v9   2.24, 2.25     sizes are size_t; virtual devices; limits of sizes
//   v10  2.26, 2.27     the profiler's callback; a traffic class at each connect
//   v11  2.28, 2.29     a context for each communicator: init with the traffic class, finalize; hints (setNetAttr)
//   v12  2.30 and on    eight devices in a virtual one; rail and plane
#pragma once

#include <cstddef>
#include <cstdint>

#include "nccl_net.h"

namespace r2cc::plugin {

template <class... Args>
using Call = ncclResult_t (*)(Args...);
using Prof = ncclProfilerCallback_t;
using Log = ncclDebugLogger_t;

/// Of a network that is driven from the device: none here is.
struct DeviceHandle;

// ---- properties -------------------------------------------------------------------------------------------------

struct Identity {
  char* name;
  char* pciPath;
  uint64_t guid;
  int ptrSupport;
  int regIsGlobal;
};
struct Port {
  int speed;  // Mbit/s
  int port;
  float latency;  // us
  int maxComms;
  int maxRecvs;  // receives in one irecv
  int deviceType;
  int deviceVersion;
};
template <int Most>
struct Parts {
  int ndevs;
  int devs[Most];
};
/// The largest message, by what it is for.
struct MostBytes {
  size_t p2p;
  size_t collective;
};

struct PropertiesV8 {
  Identity identity;
  Port port;
};
struct PropertiesV9 {  // and v10
  Identity identity;
  int forceFlush;
  Port port;
  Parts<4> parts;
  MostBytes mostBytes;
};
struct PropertiesV11 {
  Identity identity;
  int forceFlush;
  Port port;
  Parts<4> parts;
  MostBytes mostBytes;
  int maxMultiRequestSize;
};
struct PropertiesV12 {
  Identity identity;
  int forceFlush;
  Port port;
  Parts<8> parts;
  MostBytes mostBytes;
  int maxMultiRequestSize;
  int16_t rail;  // -1: not known
  int16_t plane;
};

/// Of a communicator.
struct Config {
  int trafficClass;  // -1: not set
};
/// How many flows come at a time, and of what: a hint.
struct Hints {
  int32_t send[4];
  int32_t receive[4];
  uint32_t op;
  uint32_t algorithm;
  uint32_t protocol;
};

// ---- tables -----------------------------------------------------------------------------------------------------

// Two stretches that are alike in all.
struct Memory {
  Call<void*, void*, size_t, int, void**> regMr;
  Call<void*, void*, size_t, int, uint64_t, int, void**> regMrDmaBuf;
  Call<void*, void*> deregMr;
};
struct Ends {
  Call<void*, int, void**, int*, void**, void**> iflush;
  Call<void*, int*, int*> test;
  Call<void*> closeSend;
  Call<void*> closeRecv;
  Call<void*> closeListen;
  Call<void*, void*, void**> getDeviceMr;
  Call<void*, int, void*> irecvConsumed;
};

struct NetV8 {
  const char* name;
  Call<Log> init;
  Call<int*> devices;
  Call<int, PropertiesV8*> getProperties;
  Call<int, void*, void**> listen;
  Call<int, void*, void**, DeviceHandle**> connect;
  Call<void*, void**, DeviceHandle**> accept;
  Memory memory;
  Call<void*, void*, int, int, void*, void**> isend;
  Call<void*, int, void**, int*, int*, void**, void**> irecv;
  Ends ends;
};
struct NetV9 {
  const char* name;
  Call<Log> init;
  Call<int*> devices;
  Call<int, PropertiesV9*> getProperties;
  Call<int, void*, void**> listen;
  Call<int, void*, void**, DeviceHandle**> connect;
  Call<void*, void**, DeviceHandle**> accept;
  Memory memory;
  Call<void*, void*, size_t, int, void*, void**> isend;
  Call<void*, int, void**, size_t*, int*, void**, void**> irecv;
  Ends ends;
  Call<int*, Parts<4>*> makeVDevice;
};
struct NetV10 {
  const char* name;
  Call<Log, Prof> init;
  Call<int*> devices;
  Call<int, PropertiesV9*> getProperties;
  Call<int, void*, void**> listen;
  Call<int, Config*, void*, void**, DeviceHandle**> connect;
  Call<void*, void**, DeviceHandle**> accept;
  Memory memory;
  Call<void*, void*, size_t, int, void*, void*, void**> isend;
  Call<void*, int, void**, size_t*, int*, void**, void**, void**> irecv;
  Ends ends;
  Call<int*, Parts<4>*> makeVDevice;
};
/// v11 and v12 differ in the properties and in how many devices a virtual one has.
template <class Properties, int MostParts>
struct NetOfContexts {
  const char* name;
  Call<void**, uint64_t, Config*, Log, Prof> init;
  Call<int*> devices;
  Call<int, Properties*> getProperties;
  Call<void*, int, void*, void**> listen;
  Call<void*, int, void*, void**, DeviceHandle**> connect;
  Call<void*, void**, DeviceHandle**> accept;
  Memory memory;
  Call<void*, void*, size_t, int, void*, void*, void**> isend;
  Call<void*, int, void**, size_t*, int*, void**, void**, void**> irecv;
  Ends ends;
  Call<int*, Parts<MostParts>*> makeVDevice;
  Call<void*> finalize;
  Call<void*, Hints*> setNetAttr;
};
using NetV11 = NetOfContexts<PropertiesV11, 4>;
using NetV12 = NetOfContexts<PropertiesV12, 8>;

static_assert(sizeof(PropertiesV8) == 64 && offsetof(PropertiesV8, port) == 32);
static_assert(sizeof(PropertiesV9) == 104 && offsetof(PropertiesV9, port) == 36 && offsetof(PropertiesV9, parts) == 64);
static_assert(sizeof(PropertiesV11) == 112 && offsetof(PropertiesV11, maxMultiRequestSize) == 104);
static_assert(sizeof(PropertiesV12) == 128 && offsetof(PropertiesV12, mostBytes) == 104 &&
              offsetof(PropertiesV12, rail) == 124);
static_assert(sizeof(Config) == 4 && sizeof(Hints) == 44);
static_assert(sizeof(NetV8) == 19 * sizeof(void*) && sizeof(NetV9) == 20 * sizeof(void*));
static_assert(sizeof(NetV10) == sizeof(NetV9) && sizeof(NetV11) == 22 * sizeof(void*));
static_assert(sizeof(NetV12) == sizeof(NetV11));

}  // namespace r2cc::plugin
