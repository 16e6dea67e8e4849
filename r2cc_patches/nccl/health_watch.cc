#include "health_watch.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "base/signals.h"
#include "record/r2cc_health.h"
#include "schedules.h"

namespace r2cc::schedules {
namespace {

constexpr std::chrono::milliseconds kPeriod{5};  // a switch takes longer by far

struct Watch {
  std::mutex mutex;
  std::condition_variable news;
  std::vector<Schedules*> all;
  std::thread thread;

  void run() {
    std::unique_lock<std::mutex> lock(mutex);
    uint64_t seen = r2ccHealthVersion();
    while (!all.empty()) {
      news.wait_for(lock, kPeriod);
      const uint64_t now = r2ccHealthVersion();
      if (now == seen) continue;
      seen = now;
      for (Schedules* who : all) who->report();
    }
  }
};

// Never destroyed: communicators may outlive static objects.
Watch& watch() {
  static auto* the = new Watch;
  return *the;
}

}  // namespace

void HealthWatch::add(Schedules* who) {
  Watch& it = watch();
  const std::lock_guard<std::mutex> lock(it.mutex);
  it.all.push_back(who);
  if (it.all.size() > 1) return;
  if (it.thread.joinable()) it.thread.join();  // it saw an empty list, and needs no lock any more
  const SignalsBlocked blocked;
  it.thread = std::thread([&it] { it.run(); });
}

void HealthWatch::remove(Schedules* who) {
  Watch& it = watch();
  std::thread ended;
  {
    const std::lock_guard<std::mutex> lock(it.mutex);
    it.all.erase(std::remove(it.all.begin(), it.all.end(), who), it.all.end());
    if (!it.all.empty()) return;
    it.news.notify_all();
    ended = std::move(it.thread);
  }
  if (ended.joinable()) ended.join();
}

}  // namespace r2cc::schedules
