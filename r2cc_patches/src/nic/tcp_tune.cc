#include "nic/tcp_tune.h"

#include <netinet/in.h>
#include <sys/socket.h>

namespace r2cc {
namespace {

// The kernel's numbers, which C libraries do not name yet.
constexpr int kRtoMinUs = 45;
constexpr int kDelackMaxUs = 46;
// The least that a kernel takes is two of its ticks: of 4 ms as most are built, of 10 on the slowest.
constexpr int kTriesUs[] = {8'000, 20'000};
constexpr int kWindowBytes = 1 << 20;  // NCCL's 8 slots of 128 KiB

void setFirst(int fd, int option) {
  for (const int us : kTriesUs) {
    if (setsockopt(fd, IPPROTO_TCP, option, &us, sizeof(us)) == 0) return;
  }
}

/// SO_RCVBUF would end the kernel's own adapting. A low-water mark makes the buffer large enough for the mark, and it
/// stays so when the mark is gone.
void openWindow(int fd) {
  int before = 0;
  socklen_t size = sizeof(before);
  if (getsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &before, &size) != 0) return;
  setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &kWindowBytes, sizeof(kWindowBytes));
  setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &before, sizeof(before));
}

}  // namespace

void tcpTune(int fd) {
  if (fd < 0) return;
  setFirst(fd, kRtoMinUs);
  setFirst(fd, kDelackMaxUs);
  openWindow(fd);
}

}  // namespace r2cc
