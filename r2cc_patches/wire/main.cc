// r2cc_wire: the switches of the vm lab. Ends when its control socket does. See docs/internals/vm-lab.md.
//   r2cc_wire --control FD [--seed N] --port NAME,RAIL,MAC,FD ...
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "control.h"
#include "fabric.h"

namespace {

using namespace r2cc::wire;

constexpr size_t kMaxRequest = 4096;
constexpr int kMaxEvents = 64;

struct Options {
  int control = -1;
  uint64_t seed = 1;
  std::vector<std::string> ports;
};

uint64_t nowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
}

void check(int result, const char* what) {
  if (result < 0) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--control") {
      options.control = std::stoi(argv[i + 1]);
    } else if (name == "--seed") {
      options.seed = std::stoull(argv[i + 1]);
    } else if (name == "--port") {
      options.ports.emplace_back(argv[i + 1]);
    } else {
      throw std::invalid_argument("unknown option " + name);
    }
  }
  if (argc % 2 == 0 || options.control < 0 || options.ports.empty()) {
    throw std::invalid_argument("needs --control FD and --port NAME,RAIL,MAC,FD");
  }
  return options;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

int number(const std::string& text, int base) {
  size_t end = 0;
  const int value = std::stoi(text, &end, base);
  if (end != text.size() || value < 0) throw std::invalid_argument("not a number: " + text);
  return value;
}

Port portOf(const std::string& text, uint64_t seed) {
  const std::vector<std::string> fields = split(text, ',');
  if (fields.size() != 4) throw std::invalid_argument("not a port: " + text);
  const std::vector<std::string> bytes = split(fields[2], ':');
  Mac mac{};
  if (bytes.size() != mac.size()) throw std::invalid_argument("not an address: " + fields[2]);
  for (size_t i = 0; i < mac.size(); i++) mac[i] = static_cast<uint8_t>(number(bytes[i], 16));
  return {fields[0], number(fields[1], 10), mac, number(fields[3], 10), seed};
}

Fabric fabricOf(const Options& options) {
  std::vector<Port> ports;
  ports.reserve(options.ports.size());
  for (const std::string& text : options.ports) ports.push_back(portOf(text, options.seed + ports.size()));
  return Fabric(std::move(ports));
}

class Loop {
 public:
  Loop(Fabric& fabric, int control) : fabric_(fabric), control_(control) {
    check(epoll_ = epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
    check(timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), "timerfd_create");
    watch(EPOLL_CTL_ADD, control_, EPOLLIN, kControl);
    watch(EPOLL_CTL_ADD, timer_, EPOLLIN, kTimer);
    interests_.assign(fabric_.ports().size(), 0);
    for (size_t i = 0; i < interests_.size(); i++) watch(EPOLL_CTL_ADD, fabric_.ports()[i].fd, 0, i);
  }

  void run() {
    epoll_event events[kMaxEvents];
    while (true) {
      setInterests();
      const int count = epoll_wait(epoll_, events, kMaxEvents, -1);
      if (count < 0 && errno == EINTR) continue;
      check(count, "epoll_wait");
      for (int i = 0; i < count; i++) {
        if (!handle(events[i])) return;
      }
      setTimer(fabric_.move(nowNs()));
    }
  }

 private:
  static constexpr uint64_t kControl = ~0ULL;
  static constexpr uint64_t kTimer = ~1ULL;

  void watch(int operation, int fd, uint32_t events, uint64_t id) const {
    epoll_event event{};
    event.events = events;
    event.data.u64 = id;
    check(epoll_ctl(epoll_, operation, fd, &event), "epoll_ctl");
  }

  bool handle(const epoll_event& event) {
    if (event.data.u64 == kControl) return serve();
    if (event.data.u64 == kTimer) {
      uint64_t expirations = 0;
      (void)!read(timer_, &expirations, sizeof(expirations));
      return true;
    }
    Port& port = fabric_.ports()[event.data.u64];
    if ((event.events & EPOLLOUT) != 0) port.waitsForRoom = false;
    if ((event.events & EPOLLIN) != 0) fabric_.receive(port);
    if ((event.events & EPOLLHUP) != 0) {  // the guest is gone for good
      watch(EPOLL_CTL_DEL, port.fd, 0, 0);
      interests_[event.data.u64] = kGone;
    }
    return true;
  }

  bool serve() {
    char request[kMaxRequest];
    const ssize_t size = recv(control_, request, sizeof(request), 0);
    if (size <= 0) return false;
    const std::string reply = answer(fabric_, std::string(request, static_cast<size_t>(size)), nowNs());
    return send(control_, reply.data(), reply.size(), MSG_NOSIGNAL) >= 0;
  }

  // A guest is read from while there is room for what it sends, and asked for room only when something waits for it.
  void setInterests() {
    for (size_t i = 0; i < interests_.size(); i++) {
      const Port& port = fabric_.ports()[i];
      const uint32_t wanted = (port.from.full() ? 0U : EPOLLIN) | (port.waitsForRoom ? EPOLLOUT : 0U);
      if (interests_[i] == wanted || interests_[i] == kGone) continue;
      watch(EPOLL_CTL_MOD, port.fd, wanted, i);
      interests_[i] = wanted;
    }
  }

  void setTimer(uint64_t atNs) const {
    itimerspec when{};
    when.it_value.tv_sec = static_cast<time_t>(atNs / 1000000000);
    when.it_value.tv_nsec = static_cast<long>(atNs % 1000000000);
    check(timerfd_settime(timer_, TFD_TIMER_ABSTIME, &when, nullptr), "timerfd_settime");
  }

  static constexpr uint32_t kGone = ~0U;

  Fabric& fabric_;
  int control_;
  int epoll_ = -1;
  int timer_ = -1;
  std::vector<uint32_t> interests_;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse(argc, argv);
    Fabric fabric = fabricOf(options);
    Loop(fabric, options.control).run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "r2cc_wire: %s\n", error.what());
    return 2;
  }
}
