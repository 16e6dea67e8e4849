#include "proxy.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <stdexcept>

namespace r2cc::agree::test {
namespace {

Fd connectNow(const Address& to) {
  Fd fd(socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd.valid() && connect(fd.get(), reinterpret_cast<const sockaddr*>(&to.storage), to.length) < 0) fd.reset();
  return fd;
}

bool readable(const Fd& fd, int limitMs) {
  pollfd one{fd.get(), POLLIN, 0};
  return poll(&one, 1, limitMs) > 0;
}

bool sendAll(const Fd& fd, const std::vector<uint8_t>& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = ::send(fd.get(), bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (n < 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}

}  // namespace

Proxy::Proxy() : listener_(listenOn(parseAddress("127.0.0.1", 0))) {}

Proxy::~Proxy() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

void Proxy::bend(Card& root) {
  target_ = parseAddress(root.host, root.port);
  root.port = portOf(boundTo(listener_));
  thread_ = std::thread([this] { run(); });
}

void Proxy::run() {
  while (!stop_) {
    const std::lock_guard lock(mutex_);
    if (cut_.exchange(false)) ended_.splice(ended_.end(), pairs_);
    for (Pair& pair : ended_) pair.low.reset(), pair.high.reset();
    accept();
    for (auto at = pairs_.begin(); at != pairs_.end();) {
      const auto next = std::next(at);
      if (!stalled && !pass(*at)) ended_.splice(ended_.end(), pairs_, at);
      at = next;
    }
    poll(nullptr, 0, 1);
  }
}

void Proxy::accept() {
  Fd low = acceptFrom(listener_);
  if (!low.valid() || shut) return;
  Fd high = connectNow(target_);
  if (!high.valid()) return;
  passed++;
  pairs_.push_back({std::move(low), std::move(high), {}});
}

bool Proxy::pass(Pair& pair) {
  return forward(pair.low, pair.high, true, pair) && forward(pair.high, pair.low, false, pair);
}

bool Proxy::forward(const Fd& from, const Fd& to, bool up, Pair& pair) {
  if (!readable(from, 0)) return true;
  std::vector<uint8_t> bytes(65536);
  // NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection): it does not block
  const ssize_t n = recv(from.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (n <= 0) return n < 0 && errno == EAGAIN;
  bytes.resize(static_cast<size_t>(n));
  if (spoil) spoil(up, bytes);
  if (up) pair.heard.insert(pair.heard.end(), bytes.begin(), bytes.end());
  return sendAll(to, bytes);
}

std::vector<std::vector<uint8_t>> Proxy::heard() {
  const std::lock_guard lock(mutex_);
  std::vector<std::vector<uint8_t>> all;
  for (const auto* list : {&ended_, &pairs_}) {
    for (const Pair& pair : *list) all.push_back(pair.heard);
  }
  return all;
}

Stranger::Stranger(const Card& root) : fd_(connectNow(parseAddress(root.host, root.port))) {
  if (!fd_.valid()) throw std::runtime_error("nobody listens there");
}

void Stranger::say(const std::vector<uint8_t>& bytes) const { (void)sendAll(fd_, bytes); }

std::vector<uint8_t> Stranger::hear(size_t size, int limitMs) const {
  std::vector<uint8_t> all;
  while (all.size() < size && readable(fd_, limitMs)) {
    std::vector<uint8_t> bytes(size - all.size());
    const ssize_t n = recv(fd_.get(), bytes.data(), bytes.size(), 0);
    if (n <= 0) break;
    all.insert(all.end(), bytes.begin(), bytes.begin() + n);
  }
  return all;
}

bool Stranger::hungUp(int limitMs) const {
  uint8_t byte = 0;
  while (readable(fd_, limitMs)) {
    const ssize_t n = recv(fd_.get(), &byte, 1, 0);
    if (n == 0 || (n < 0 && errno == ECONNRESET)) return true;
  }
  return false;
}

}  // namespace r2cc::agree::test
