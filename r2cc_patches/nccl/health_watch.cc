#include "health_watch.h"

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/signals.h"
#include "record/r2cc_health.h"

namespace r2cc::schedules {
namespace {

constexpr std::chrono::milliseconds kPeriod{5};  // a switch takes longer by far

struct Watch {
  std::mutex mutex;
  std::condition_variable news;
  std::map<const void*, std::function<void()>> all;
  std::thread thread;
  unsigned threads = 0;  // that there were: each ends when the next one may begin, whoever was added meanwhile

  void run(unsigned mine) {
    std::unique_lock<std::mutex> lock(mutex);
    uint64_t seen = r2ccHealthVersion();
    while (mine == threads) {
      news.wait_for(lock, kPeriod);
      const uint64_t now = r2ccHealthVersion();
      if (now == seen || mine != threads) continue;
      seen = now;
      for (const auto& [who, tell] : all) tell();
    }
  }
};

// Never destroyed: communicators may outlive static objects.
Watch& watch() {
  static auto* the = new Watch;
  return *the;
}

}  // namespace

void HealthWatch::add(const void* who, std::function<void()> tell) {
  Watch& it = watch();
  const std::lock_guard<std::mutex> lock(it.mutex);
  if (!it.thread.joinable()) {
    const SignalsBlocked blocked;
    it.thread = std::thread([&it, mine = it.threads] { it.run(mine); });
  }
  it.all[who] = std::move(tell);
}

void HealthWatch::remove(const void* who) {
  Watch& it = watch();
  std::thread ended;
  {
    const std::lock_guard<std::mutex> lock(it.mutex);
    it.all.erase(who);
    if (!it.all.empty() || !it.thread.joinable()) return;
    it.threads++;
    it.news.notify_all();
    ended = std::move(it.thread);
  }
  ended.join();
}

}  // namespace r2cc::schedules
