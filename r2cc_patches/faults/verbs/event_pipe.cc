#include "faults/verbs/event_pipe.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "faults/quiet_signals.h"

namespace r2cc::faults {

namespace {

/// As the kernel's interface has it (ib_uverbs_async_event_desc); libibverbs reads one at a time.
struct Record {
  uint64_t element = 0;
  uint32_t event = 0;
  uint32_t reserved = 0;
};

constexpr int kNow = MSG_DONTWAIT | MSG_NOSIGNAL;

}  // namespace

int EventPipe::open(int asyncFd) {
  close();
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return -1;
  const Fd reads(ends[0]);
  ours_ = Fd(ends[1]);
  kernel_ = Fd(fcntl(asyncFd, F_DUPFD_CLOEXEC, 3));
  wake_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const int flags = fcntl(asyncFd, F_GETFL);
  (void)fcntl(reads.get(), F_SETFL, flags);
  const bool ready = kernel_.valid() && wake_.valid() && begin();
  if (!ready || dup3(reads.get(), asyncFd, O_CLOEXEC) != asyncFd) return close(), -1;
  (void)fcntl(kernel_.get(), F_SETFL, flags | O_NONBLOCK);
  return kernel_.get();
}

bool EventPipe::begin() {
  const QuietSignals quiet;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

void EventPipe::close() {
  if (thread_.joinable()) {
    (void)eventfd_write(wake_.get(), 1);
    thread_.join();
  }
  kernel_.reset();
  ours_.reset();
  wake_.reset();
}

bool EventPipe::say(int event, uint8_t port) const {
  const Record record = {port, static_cast<uint32_t>(event), 0};
  return ours_.valid() && send(ours_.get(), &record, sizeof(record), kNow) == sizeof(record);
}

void EventPipe::run() {
  (void)prctl(PR_SET_NAME, "r2cc_events");
  pollfd asked[2] = {{kernel_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
  while (poll(asked, 2, -1) >= 0 && asked[1].revents == 0) {
    Record record;
    const ssize_t got = read(kernel_.get(), &record, sizeof(record));
    if (got == sizeof(record)) (void)!send(ours_.get(), &record, sizeof(record), kNow);
    if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR))) continue;
    (void)shutdown(ours_.get(), SHUT_WR);  // the device is not there any more, which who reads has to see
    return;
  }
}

}  // namespace r2cc::faults
