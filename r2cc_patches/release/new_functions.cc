// What glibc has had as functions only since 2.32 to 2.36, done in the way of the older ones (old_symbols.S does the
// rest). The linker takes these for calls of the name behind `__wrap_`.

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#define R2CC_WRAPPED extern "C" __attribute__((visibility("hidden")))

// glibc 2.33 on: the kernel's own structure is glibc's on the CPUs that we build for.
R2CC_WRAPPED int __wrap_fstatat(int folder, const char* path, struct stat* out, int flags) {
  return static_cast<int>(syscall(SYS_newfstatat, folder, path, out, flags));
}

R2CC_WRAPPED int __wrap_stat(const char* path, struct stat* out) { return __wrap_fstatat(AT_FDCWD, path, out, 0); }

R2CC_WRAPPED int __wrap_lstat(const char* path, struct stat* out) {
  return __wrap_fstatat(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}

R2CC_WRAPPED int __wrap_fstat(int fd, struct stat* out) { return static_cast<int>(syscall(SYS_fstat, fd, out)); }

R2CC_WRAPPED int __wrap_fstat64(int fd, struct stat64* out) { return static_cast<int>(syscall(SYS_fstat, fd, out)); }

// 2.32 on: says that no other thread was ever started. "No" is always safe.
extern "C" __attribute__((visibility("hidden"))) char __wrap___libc_single_threaded;
char __wrap___libc_single_threaded = 0;

// 2.36 on; libstdc++'s random_device asks for it. As there, a process that can get no random bytes ends.
R2CC_WRAPPED uint32_t __wrap_arc4random() {
  uint32_t value = 0;
  if (getentropy(&value, sizeof value) != 0) abort();
  return value;
}
