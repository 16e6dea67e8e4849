#include "faults/sockets.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace r2cc::faults {

namespace {

struct End {
  Ip ip{};
  uint16_t port = 0;
};

std::optional<End> endOf(const sockaddr_storage& address) {
  End end;
  if (address.ss_family == AF_INET) {
    sockaddr_in four{};
    std::memcpy(&four, &address, sizeof(four));
    end.ip[10] = end.ip[11] = 0xff;
    std::memcpy(end.ip.data() + 12, &four.sin_addr, 4);
    end.port = ntohs(four.sin_port);
    return end;
  }
  if (address.ss_family != AF_INET6) return std::nullopt;
  sockaddr_in6 six{};
  std::memcpy(&six, &address, sizeof(six));
  std::memcpy(end.ip.data(), &six.sin6_addr, end.ip.size());
  end.port = ntohs(six.sin6_port);
  return end;
}

template <typename Name>
std::optional<End> named(int fd, const Name& name) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  return name(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 ? endOf(address) : std::nullopt;
}

bool isStream(int fd) {
  int type = 0;
  socklen_t size = sizeof(type);
  return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

bool isAny(const Ip& ip) {
  const auto zero = [](uint8_t byte) { return byte == 0; };
  return std::all_of(ip.begin() + 12, ip.end(), zero) &&
         (std::all_of(ip.begin(), ip.begin() + 12, zero) || (ip[10] == 0xff && ip[11] == 0xff));
}

/// The address from which the kernel would send there. Nothing leaves for that.
std::optional<End> routedTo(const sockaddr_storage& to, socklen_t size) {
  const Fd asks(socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!asks.valid() || connect(asks.get(), reinterpret_cast<const sockaddr*>(&to), size) != 0) return std::nullopt;
  std::optional<End> found = named(asks.get(), getsockname);
  if (found) found->port = 0;
  return found;
}

}  // namespace

uint64_t cookieOf(int fd) {
  uint64_t cookie = 0;
  socklen_t size = sizeof(cookie);
  return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size) == 0 ? cookie : 0;
}

std::optional<Ends> endsOf(int fd) {
  if (!isStream(fd)) return std::nullopt;
  const std::optional<End> peer = named(fd, getpeername);
  const std::optional<End> local = named(fd, getsockname);
  if (!peer || !local) return std::nullopt;
  return Ends{local->ip, peer->ip, local->port, peer->port};
}

std::optional<Ends> doorOf(int fd) {
  int listens = 0;
  socklen_t size = sizeof(listens);
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) return std::nullopt;
  const std::optional<End> local = named(fd, getsockname);
  return local ? std::optional<Ends>({local->ip, {}, local->port, 0}) : std::nullopt;
}

std::optional<Ends> endsTo(int fd, const sockaddr* to, socklen_t size) {
  sockaddr_storage address{};
  if (to == nullptr || size > sizeof(address) || !isStream(fd)) return std::nullopt;
  std::memcpy(&address, to, size);
  const std::optional<End> peer = endOf(address);
  if (!peer) return std::nullopt;
  std::optional<End> local = named(fd, getsockname);
  if (!local || isAny(local->ip)) local = routedTo(address, size);
  return local ? std::optional<Ends>({local->ip, peer->ip, local->port, peer->port}) : std::nullopt;
}

std::vector<int> openDescriptors() {
  std::vector<int> found;
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return found;
  while (const dirent* entry = readdir(folder)) {
    const int fd = entry->d_name[0] == '.' ? -1 : static_cast<int>(std::strtol(entry->d_name, nullptr, 10));
    if (fd >= 0 && fd != dirfd(folder)) found.push_back(fd);
  }
  closedir(folder);
  return found;
}

Fd heldOpen(int fd) { return Fd(fcntl(fd, F_DUPFD_CLOEXEC, 3)); }

bool hasUnread(int fd) {
  int bytes = 0;
  return ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0;
}

bool reset(int fd) {
  sockaddr nobody{};
  nobody.sa_family = AF_UNSPEC;
  return connect(fd, &nobody, sizeof(nobody)) == 0;
}

bool deafen(int fd) {
  sock_filter drop = {BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog program = {1, &drop};
  return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0;
}

int deafenError() {
  const Fd tried(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return !tried.valid() || deafen(tried.get()) ? 0 : errno;
}

void hear(int fd) {
  const int unused = 0;
  (void)setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof(unused));
}

std::optional<uint64_t> pace(int fd, uint64_t bytesPerS) {
  uint64_t before = 0;
  socklen_t size = sizeof(before);
  if (getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &before, &size) != 0 || size != sizeof(before))
    return std::nullopt;
  if (setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &bytesPerS, sizeof(bytesPerS)) != 0) return std::nullopt;
  return before;
}

}  // namespace r2cc::faults
