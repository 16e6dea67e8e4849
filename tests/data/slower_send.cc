// Linked into a copy of the net library by tests/lab/test_ci_lab.py, never by us: the library's own send() then holds a
// process to R2CC_TEST_MOST_GBIT, as a change that wastes time in the data path would.
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <mutex>

namespace {

using Clock = std::chrono::steady_clock;
constexpr double kBurstBytes = 128 << 10;
std::mutex turn;
double allowed = kBurstBytes;  // bytes that may go now
Clock::time_point filled = Clock::now();

double bytesPerSecond() {
  static const char* const said = std::getenv("R2CC_TEST_MOST_GBIT");
  return (said ? std::strtod(said, nullptr) : 0.372) * 1e9 / 8;
}

}  // namespace

extern "C" ssize_t send(int fd, const void* data, size_t size, int flags) {
  const std::lock_guard<std::mutex> mine(turn);
  const Clock::time_point now = Clock::now();
  allowed = std::min(kBurstBytes, allowed + std::chrono::duration<double>(now - filled).count() * bytesPerSecond());
  filled = now;
  if (allowed <= 0 && (flags & MSG_DONTWAIT)) {
    errno = EAGAIN;
    return -1;
  }
  const ssize_t sent = syscall(SYS_sendto, fd, data, size, flags, nullptr, 0);
  if (sent > 0) allowed -= static_cast<double>(sent);
  return sent;
}
