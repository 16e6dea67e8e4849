// The one background thread of a process: sockets, timers and what other threads ask for, of all agreements.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "agree/net/socket.h"

namespace r2cc::agree {

class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void ready(uint32_t events) = 0;  // as epoll(7) has them
};

class Timed {
 public:
  virtual ~Timed() = default;
  virtual int64_t deadline() const = 0;
  virtual void tick(int64_t now) = 0;  // after whatever happened, and at the deadline
};

class Loop {
 public:
  static constexpr int64_t kNever = INT64_MAX;

  /// The process's; made when there is none. It ends with its last owner. Throws std::runtime_error.
  static std::shared_ptr<Loop> shared();
  Loop();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// Any thread; runs on the loop's.
  void post(std::function<void()> what);
  /// Any other thread: waits until it was run.
  void call(const std::function<void()>& what);
  /// This process is a child of the one that has the thread: nothing here works.
  bool foreign() const;

  // ---- the loop's thread
  /// The number that names the watch. `watcher` is not called any more once it is unwatched.
  uint64_t watch(int fd, uint32_t events, Watcher& watcher);
  void change(uint64_t watch, int fd, uint32_t events) const;
  void unwatch(uint64_t watch, int fd);
  void add(Timed& timed) { timed_.insert(&timed); }
  void remove(Timed& timed) { timed_.erase(&timed); }
  /// Something has an end of its own that the thread must not miss: one more (1) or less (-1).
  void stay(int more) { staying_ += more; }
  /// Monotonic, but it stands still while this thread could not run: nobody is late because we were.
  int64_t now() const { return now_; }

 private:
  void run();
  void runPosted();
  int timeoutMs() const;
  void advance(int timeoutMs);

  Fd epoll_, wake_;
  const unsigned process_;
  std::map<uint64_t, Watcher*> watchers_;
  uint64_t lastWatch_ = 0;
  std::set<Timed*> timed_;
  int64_t now_, real_;
  bool stop_ = false;
  int staying_ = 0;
  std::mutex mutex_;  // of what is posted
  std::vector<std::function<void()>> posted_;
  std::thread thread_;
};

}  // namespace r2cc::agree
