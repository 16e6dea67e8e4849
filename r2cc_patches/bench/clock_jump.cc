// libr2cc_clock.so, for LD_PRELOAD in tests only: the wall clock as the machine has it plus the whole seconds that the
// file named by R2CC_TEST_CLOCK_FILE holds, read anew at every call. CLOCK_MONOTONIC stays what it is; so do kernel
// timers that were given a wall-clock deadline, as after a real jump. An empty or missing file means no offset.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>

namespace {

long offsetSeconds() {
  static const char* const path = std::getenv("R2CC_TEST_CLOCK_FILE");
  if (path == nullptr) return 0;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[32] = {};
  const bool said = read(fd, text, sizeof(text) - 1) > 0;
  close(fd);
  return said ? std::strtol(text, nullptr, 10) : 0;
}

bool isWall(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI; }

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, timespec* time) noexcept {
  using Real = int (*)(clockid_t, timespec*);
  static const auto real = reinterpret_cast<Real>(dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = real(clock, time);
  if (result == 0 && isWall(clock)) time->tv_sec += offsetSeconds();
  return result;
}

__attribute__((visibility("default"))) int gettimeofday(timeval* time, void* /*zone*/) noexcept {
  timespec now{};
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}

__attribute__((visibility("default"))) time_t time(time_t* out) noexcept {
  timespec now{};
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}
}
