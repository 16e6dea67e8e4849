#include "faults/watcher.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "faults/enforcer.h"
#include "faults/quiet_signals.h"

namespace r2cc::faults {

namespace {

constexpr auto kEvery = std::chrono::milliseconds(5);
constexpr auto kEveryInForce = std::chrono::milliseconds(2);  // new connections are found by looking
// Many descriptors take long to look through: the thread takes a tenth of a core, else a fiftieth.
constexpr int kShareInForce = 10, kShare = 50;
constexpr std::chrono::nanoseconds kMostRest = std::chrono::milliseconds(250);  // who writes rules waits for an answer
constexpr size_t kStackBytes = 256 << 10;

std::atomic<Book*> current{nullptr};
std::atomic<bool> running{false};

/// As it was when the first socket was made: programs may change their environment.
const std::string& folder() {
  static const std::string& found = *[] {
    const char* const named = std::getenv("R2CC_FAULTS");
    return new std::string(named == nullptr ? "" : named);
  }();
  return found;
}

void wait(std::chrono::nanoseconds length) {
  const timespec pause = {length.count() / 1'000'000'000, length.count() % 1'000'000'000};
  (void)nanosleep(&pause, nullptr);
}

/// By this thread. On a busy machine a look takes long, and costs no more.
std::chrono::nanoseconds computed() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

void* run(void* /*unused*/) {
  (void)prctl(PR_SET_NAME, "r2cc_faults");
  Enforcer enforcer(folder(), *book(), devices());
  while (true) {
    const std::chrono::nanoseconds began = computed();
    bool inForce = false;
    try {
      inForce = enforcer.look();
    } catch (const std::exception& error) {
      // Out of memory: it is not this thread that the process should die of. The next look tries again.
      std::fprintf(stderr, "r2cc faults: %s\n", error.what());
    }
    const std::chrono::nanoseconds least = inForce ? kEveryInForce : kEvery;
    const std::chrono::nanoseconds rest = (inForce ? kShareInForce : kShare) * (computed() - began);
    wait(std::clamp(rest, least, kMostRest));
  }
}

/// The child has no such thread, and what that one held may be locked for ever.
void inChild() {
  current = new Book;
  devices().inChild();
  running = false;
}

bool begin() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_t thread{};
  const QuietSignals quiet;
  const bool made = pthread_create(&thread, &attributes, run, nullptr) == 0;
  pthread_attr_destroy(&attributes);
  return made;
}

/// Before any call: one may come from a handler of a signal, which must not allocate.
__attribute__((constructor)) void prepare() {
  current = new Book;
  (void)devices();
  pthread_atfork(nullptr, nullptr, inChild);
}

}  // namespace

Book* book() { return current; }

Devices& devices() {
  static Devices& all = *new Devices;
  return all;
}

bool wanted() { return !folder().empty(); }

void watch() {
  if (book() == nullptr || !wanted()) return;
  if (!running.exchange(true) && !begin()) running = false;
}

}  // namespace r2cc::faults
