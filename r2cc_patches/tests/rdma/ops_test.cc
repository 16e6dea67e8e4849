// Drives the IB transport's private operations on a real RDMA device, one command a line on stdin, one answer a line on
// stdout: tests/vm/test_ib_ops.py runs one in each guest and breaks things between the commands.
#include <dirent.h>
#include <poll.h>

#include <cstdarg>
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

#include "end.h"

extern ncclNet_t ncclNetIb;

namespace {

using r2cc::InnerNet;
using r2cc::NicEvent;
using r2cc::ib::End;

void log(ncclDebugLogLevel, unsigned long, const char*, int, const char* format, ...) {
  va_list args;
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fputc('\n', stderr);
}

size_t descriptors() {
  DIR* folder = opendir("/proc/self/fd");
  size_t count = 0;
  while (folder != nullptr && readdir(folder) != nullptr) count++;
  if (folder != nullptr) closedir(folder);
  return count;
}

std::string word(const NicEvent& event) {
  return std::string(event.cause) + (event.up ? ":up" : ":down") + (event.fatal ? ":fatal" : "");
}

/// The events of a device that come within `ms`, one word each: cause, up or down, fatal.
std::string events(const InnerNet& net, int dev, int ms) {
  const int fd = net.ops->openEvents(dev);
  if (fd < 0) return "none";
  pollfd ready = {fd, POLLIN, 0};
  (void)poll(&ready, 1, ms);
  std::string out;
  NicEvent event;
  while (net.ops->readEvent(dev, &event)) out += (out.empty() ? "" : " ") + word(event);
  return out;
}

std::string reopen(const InnerNet& net, int dev) {
  NicEvent event;
  return net.ops->reopen(dev, &event) ? word(event) : "-";
}

/// Makes one virtual device of two, as NCCL does of a NIC's ports; its index.
std::string merge(const InnerNet& net, int first, int second) {
  ncclNetVDeviceProps_t props{2, {first, second}};
  int dev = -1;
  if (net.net->makeVDevice(&dev, &props) != ncclSuccess) return "! cannot merge";
  return std::to_string(dev);
}

std::string interfaceOf(const InnerNet& net, int dev) {
  char name[64] = "";
  return net.ops->interfaceOf(dev, name, sizeof(name)) ? name : "-";
}

using Command = std::function<std::string(std::istream&)>;

template <class T>
T next(std::istream& words) {
  T value{};
  words >> value;
  return value;
}

std::map<std::string, Command> commands(End& end, const InnerNet& net) {
  using In = std::istream&;
  const auto number = [](In w) { return next<int>(w); };
  std::map<std::string, Command> all;
  all["listen"] = [&, number](In w) { return end.listen(number(w)); };
  all["accept"] = [&, number](In w) { return end.accept(number(w)); };
  all["connect"] = [&](In w) {
    const int dev = next<int>(w);
    const auto handle = next<std::string>(w);
    return end.connect(dev, handle, next<int>(w));
  };
  all["allocate"] = [&](In w) {
    const auto count = next<size_t>(w);
    return end.allocate(count, next<size_t>(w)), std::string("ok");
  };
  all["post"] = [&](In w) {
    const auto count = next<size_t>(w);
    return std::to_string(end.post(count, next<int>(w)));
  };
  all["test"] = [&, number](In w) { return std::string(end.test(number(w)) ? "ok" : "error"); };
  all["settle"] = [&](In) { return end.settle(), end.fates(); };
  all["fates"] = [&](In) { return end.fates(); };
  all["contents"] = [&](In) { return end.contents(); };
  all["quiet"] = [&, number](In w) { return std::string(end.quiet(number(w)) ? "quiet" : "written"); };
  all["drain"] = [&](In) { return std::to_string(end.drain()); };
  all["fence"] = [&](In) { return std::to_string(end.fence()); };
  all["close"] = [&](In) { return std::to_string(end.close()); };
  all["cancel"] = [&](In) { return end.cancel(), std::string("ok"); };
  all["descriptors"] = [](In) { return std::to_string(descriptors()); };
  all["interface"] = [&, number](In w) { return interfaceOf(net, number(w)); };
  all["merge"] = [&](In w) {
    const int first = next<int>(w);
    return merge(net, first, next<int>(w));
  };
  all["events"] = [&](In w) {
    const int dev = next<int>(w);
    return events(net, dev, next<int>(w));
  };
  all["reopen"] = [&, number](In w) { return reopen(net, number(w)); };
  return all;
}

}  // namespace

/// `--upstream`: the fork's own table, to compare with.
int main(int argc, char** argv) {
  InnerNet net = r2cc::innerNet(&ncclNetIb);
  if (argc > 1 && std::string(argv[1]) == "--upstream") net.net = &ncclNetIb;
  void* ctx = nullptr;
  ncclNetCommConfig_t config{NCCL_NET_TRAFFIC_CLASS_UNDEF};
  int devices = 0;
  if (net.net->init(&ctx, 1, &config, log, nullptr) != ncclSuccess || net.net->devices(&devices) != ncclSuccess) {
    std::cout << "! no IB devices" << std::endl;
    return 1;
  }
  std::cout << devices << std::endl;
  End end(net, ctx);
  const auto known = commands(end, net);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    const auto found = known.find(next<std::string>(words));
    try {
      std::cout << (found == known.end() ? "! unknown command" : found->second(words)) << std::endl;
    } catch (const std::exception& error) {
      std::cout << "! " << error.what() << std::endl;
    }
  }
  return 0;
}
