// What TLS costs in CPU time, both ends together: the same bytes over loopback TCP with and without, in turns, and a
// hand-shake. `make tls-cost`.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstdio>
#include <ctime>
#include <memory>
#include <stdexcept>
#include <vector>

#include "base/fd.h"
#include "tls/tls_socket.h"

using namespace r2cc;

namespace {

constexpr size_t kBytes = 100000000;
constexpr int kRounds = 3, kShakes = 200;
constexpr TlsKey kKey{1};

double cpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct Wire {
  Fd sender, receiver;
};

Wire newWire() {
  const Fd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(here);
  auto* address = reinterpret_cast<sockaddr*>(&here);
  Fd sender(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (bind(listener.get(), address, size) != 0 || listen(listener.get(), 1) != 0 ||
      getsockname(listener.get(), address, &size) != 0 || connect(sender.get(), address, size) != 0) {
    throw std::runtime_error("no connection over loopback");
  }
  const int on = 1;
  (void)setsockopt(sender.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return {std::move(sender), Fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC))};
}

struct Tls {
  explicit Tls(const Wire& wire) : sender(wire.sender.get(), kKey, true), receiver(wire.receiver.get(), kKey, false) {
    using Shaken = TlsSocket::Handshake;
    Shaken sent = Shaken::Working, received = Shaken::Working;
    while (sent != Shaken::Done || received != Shaken::Done) {
      sent = sender.handshake();
      received = receiver.handshake();
      if (sent == Shaken::Failed || received == Shaken::Failed) throw std::runtime_error("no hand-shake");
    }
  }
  TlsSocket sender, receiver;
};

/// Seconds of CPU a GB, in messages of this size.
double cost(bool encrypted, size_t message) {
  const Wire wire = newWire();
  const std::unique_ptr<Tls> tls = encrypted ? std::make_unique<Tls>(wire) : nullptr;
  const std::vector<char> from(message, 'x');
  std::vector<char> into(message);
  const double began = cpuSeconds();
  size_t sent = 0, came = 0;
  const auto moved = [](size_t& count, ssize_t bytes) {
    if (bytes > 0) count += static_cast<size_t>(bytes);
    return bytes > 0;
  };
  const auto give = [&] {
    const size_t at = sent % message, left = message - at;
    return tls != nullptr ? tls->sender.send(from.data() + at, left)
                          : send(wire.sender.get(), from.data() + at, left, MSG_DONTWAIT);
  };
  const auto take = [&] {
    const size_t at = came % message, left = message - at;
    return tls != nullptr ? tls->receiver.recv(into.data() + at, left)
                          : recv(wire.receiver.get(), into.data() + at, left, MSG_DONTWAIT);
  };
  while (came < kBytes) {
    (void)moved(sent, give());
    while (moved(came, take())) {
    }
  }
  return (cpuSeconds() - began) / (static_cast<double>(kBytes) / 1e9);
}

}  // namespace

int main() {
  for (const size_t message : {size_t{4096}, size_t{65536}, size_t{1} << 20}) {
    for (int i = 0; i < kRounds; i++) {
      const double plain = cost(false, message), tls = cost(true, message);
      std::printf("%8zu bytes: plain %.3f, TLS %.3f s of CPU a GB, both ends\n", message, plain, tls);
      std::fflush(stdout);
    }
  }
  const double began = cpuSeconds();
  for (int i = 0; i < kShakes; i++) Tls{newWire()};
  std::printf("a hand-shake: %.0f us of CPU, both ends\n", (cpuSeconds() - began) / kShakes * 1e6);
  return 0;
}
