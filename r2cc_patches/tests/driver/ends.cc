#include "ends.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "bench/clock.h"
#include "bench/errors.h"

namespace r2cc::driver {
namespace {

using bench::checkNet;
using bench::Comm;
using bench::CommKind;
using bench::nowNs;
using bench::TransportError;

constexpr useconds_t kAgainUs = 500;

const bench::Net& netOf(const Nets& nets, size_t connection) { return *nets[connection % nets.size()]; }

void checkTime(uint64_t deadlineNs, const std::string& what) {
  if (nowNs() > deadlineNs) throw TransportError(what + " in time");
}

bool tryConnect(const bench::Net& net, int device, Handle& handle, Comm& comm) {
  ncclNetDeviceHandle_t* deviceHandle = nullptr;
  checkNet(net.table().connect(net.context(), device, handle.data(), comm.slot(), &deviceHandle), "connect");
  return comm.open();
}

bool tryAccept(const bench::Net& net, Listener& listener, Comm& comm) {
  ncclNetDeviceHandle_t* deviceHandle = nullptr;
  checkNet(net.table().accept(listener.comm.get(), comm.slot(), &deviceHandle), "accept");
  if (comm.open()) listener.comm.close();  // as NCCL does it
  return comm.open();
}

std::vector<Comm> closedComms(const Nets& nets, CommKind kind, size_t count) {
  std::vector<Comm> comms;
  comms.reserve(count);
  for (size_t i = 0; i < count; i++) comms.emplace_back(netOf(nets, i), kind, -1, static_cast<int>(i));
  return comms;
}

}  // namespace

std::vector<Listener> listenOn(const Nets& nets, const std::vector<int>& devices) {
  std::vector<Listener> listeners;
  for (size_t i = 0; i < devices.size(); i++) {
    const bench::Net& net = netOf(nets, i);
    Listener& listener = listeners.emplace_back(Listener{Comm(net, CommKind::Listen, -1, static_cast<int>(i))});
    checkNet(net.table().listen(net.context(), devices[i], listener.handle.data(), listener.comm.slot()), "listen");
  }
  return listeners;
}

void writeHandles(const std::string& path, const std::vector<Listener>& listeners) {
  const std::string part = path + ".part";
  {
    std::ofstream file(part, std::ios::binary);
    for (const Listener& listener : listeners) file.write(listener.handle.data(), NCCL_NET_HANDLE_MAXSIZE);
    if (!file) throw TransportError("cannot write " + part);
  }
  std::filesystem::rename(part, path);
}

std::vector<Handle> readHandles(const std::string& path, size_t count, uint64_t deadlineNs) {
  while (!std::filesystem::exists(path)) {
    checkTime(deadlineNs, "no handles in " + path);
    usleep(kAgainUs);
  }
  std::vector<Handle> handles(count);
  std::ifstream file(path, std::ios::binary);
  for (Handle& handle : handles) file.read(handle.data(), NCCL_NET_HANDLE_MAXSIZE);
  if (!file) throw TransportError(path + " holds fewer handles than --dev names devices");
  return handles;
}

Made connectAll(const Nets& nets, const std::vector<int>& devices, std::vector<Handle> handles,
                std::vector<Listener>& listeners, uint64_t deadlineNs) {
  Made made{closedComms(nets, CommKind::Send, handles.size()), closedComms(nets, CommKind::Receive, listeners.size())};
  for (bool all = false; !all;) {
    all = true;
    for (size_t i = 0; i < handles.size(); i++) {
      if (!made.sends[i].open() && !tryConnect(netOf(nets, i), devices[i], handles[i], made.sends[i])) all = false;
    }
    for (size_t i = 0; i < listeners.size(); i++) {
      if (!made.receives[i].open() && !tryAccept(netOf(nets, i), listeners[i], made.receives[i])) all = false;
    }
    if (all) break;
    checkTime(deadlineNs, "not connected");
    usleep(kAgainUs);
  }
  return made;
}

}  // namespace r2cc::driver
