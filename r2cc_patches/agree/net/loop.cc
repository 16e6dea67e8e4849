#include "agree/net/loop.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <future>
#include <stdexcept>
#include <utility>

#include "base/clock.h"
#include "base/process_life.h"
#include "base/signals.h"

namespace r2cc::agree {
namespace {

constexpr uint64_t kWake = 0;
constexpr int64_t kLateNs = msToNs(200);

/// What of this process all agreements share.
struct Registry {
  std::mutex mutex;
  std::weak_ptr<Loop> loop;
};

Registry& registry() {
  // Never destroyed: a communicator may outlive main().
  static Registry* const only = [] {
    static auto* const made = new Registry;
    // A child must not find it locked for ever.
    pthread_atfork([] { made->mutex.lock(); }, [] { made->mutex.unlock(); }, [] { made->mutex.unlock(); });
    return made;
  }();
  return *only;
}

[[noreturn]] void failed(const char* what) {
  throw std::runtime_error(std::string("the agreement's thread: ") + what + ": " + std::strerror(errno));
}

}  // namespace

std::shared_ptr<Loop> Loop::shared() {
  Registry& own = registry();
  const std::lock_guard lock(own.mutex);
  std::shared_ptr<Loop> loop = own.loop.lock();
  if (!loop || loop->foreign()) {
    somethingRuns(0);  // forks count from here on
    // A parent's is left alone: its thread is not in this process, and its locks may be held for ever.
    if (loop) new std::shared_ptr<Loop>(std::move(loop));
    loop = std::make_shared<Loop>();
    own.loop = loop;
  }
  return loop;
}

Loop::Loop()
    : epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      process_(processNumber()),
      now_(nowNs()),
      real_(now_) {
  if (!epoll_.valid() || !wake_.valid()) failed("no descriptor");
  epoll_event event{EPOLLIN, {}};
  event.data.u64 = kWake;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) < 0) failed("epoll_ctl");
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
  somethingRuns(1);
  (void)pthread_setname_np(thread_.native_handle(), "r2cc-agree");
}

Loop::~Loop() {
  post([this] { stop_ = true; });
  thread_.join();
  somethingRuns(-1);
}

bool Loop::foreign() const { return process_ != processNumber(); }

void Loop::post(std::function<void()> what) {
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(what));
  }
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof(one));  // fails only when it is awake already
}

void Loop::call(const std::function<void()>& what) {
  std::promise<void> done;
  post([&] {
    what();
    done.set_value();
  });
  done.get_future().wait();
}

uint64_t Loop::watch(int fd, uint32_t events, Watcher& watcher) {
  epoll_event event{events, {}};
  event.data.u64 = ++lastWatch_;
  watchers_[lastWatch_] = &watcher;
  (void)epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);  // without it, its silence will be noticed
  return lastWatch_;
}

void Loop::change(uint64_t watch, int fd, uint32_t events) const {
  epoll_event event{events, {}};
  event.data.u64 = watch;
  (void)epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void Loop::unwatch(uint64_t watch, int fd) {
  watchers_.erase(watch);
  (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

int Loop::timeoutMs() const {
  int64_t next = kNever;
  for (const Timed* timed : timed_) next = std::min(next, timed->deadline());
  if (next == kNever) return -1;
  return static_cast<int>(std::clamp<int64_t>((next - now_ + 999999) / 1000000, 0, 3600000));
}

void Loop::advance(int timeoutMs) {
  const int64_t real = nowNs();
  const int64_t passed = real - std::exchange(real_, real);
  now_ += timeoutMs < 0 ? passed : std::min(passed, msToNs(timeoutMs) + kLateNs);
}

void Loop::runPosted() {
  std::vector<std::function<void()>> posted;
  {
    const std::lock_guard lock(mutex_);
    posted.swap(posted_);
  }
  for (const auto& what : posted) what();
}

void Loop::run() {
  epoll_event events[64];
  while (!stop_ || staying_ > 0) {
    const int timeout = timeoutMs();
    const int count = epoll_wait(epoll_.get(), events, 64, timeout);
    advance(timeout);
    for (int i = 0; i < count; i++) {
      if (events[i].data.u64 == kWake) {
        uint64_t value = 0;
        (void)!read(wake_.get(), &value, sizeof(value));
        continue;
      }
      const auto found = watchers_.find(events[i].data.u64);
      if (found != watchers_.end()) found->second->ready(events[i].events);
    }
    runPosted();
    for (Timed* timed : timed_) timed->tick(now_);
  }
}

}  // namespace r2cc::agree
