// Connections as NCCL makes them: listen, the handle told outside of the net, connect and accept called until they give
// a comm.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "bench/transport/comm.h"
#include "driver_options.h"

namespace r2cc::driver {

using Nets = std::vector<std::unique_ptr<bench::Net>>;
using Handle = std::array<char, NCCL_NET_HANDLE_MAXSIZE>;

struct Listener {
  bench::Comm comm;
  Handle handle{};
};

// One for each device, on the contexts in turn.
std::vector<Listener> listenOn(const Nets& nets, const std::vector<int>& devices);

// The file is there whole or not at all.
void writeHandles(const std::string& path, const std::vector<Listener>& listeners);
// Waits for the file. Throws TransportError when it is not there in time.
std::vector<Handle> readHandles(const std::string& path, size_t count, uint64_t deadlineNs);

struct Made {
  std::vector<bench::Comm> sends;
  std::vector<bench::Comm> receives;
};

// Calls connect for each handle and accept for each listener, by turns, until all have a comm. Throws TransportError
// when that takes longer than until the deadline.
Made connectAll(const Nets& nets, const std::vector<int>& devices, std::vector<Handle> handles,
                std::vector<Listener>& listeners, uint64_t deadlineNs);

}  // namespace r2cc::driver
