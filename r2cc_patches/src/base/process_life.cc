#include "base/process_life.h"

#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

namespace r2cc {
namespace {

struct Life {
  std::atomic<bool> child{false};
  std::atomic<unsigned> number{0};
  std::atomic<int> running{0};
  std::once_flag forks, end;
  std::mutex mutex;
  std::vector<std::function<void()>> last;
  std::atomic<bool> ends{false};
};

Life& life() {
  static Life& l = *new Life;
  return l;
}

void endOfProcess() {
  if (inChild()) return;
  life().ends = true;
  const std::lock_guard<std::mutex> lock(life().mutex);
  for (const auto& last : life().last) last();
}

}  // namespace

bool inChild() { return life().child.load(std::memory_order_relaxed); }

unsigned processNumber() { return life().number.load(std::memory_order_relaxed); }

void somethingRuns(int begins) {
  std::call_once(life().forks, [] {
    (void)pthread_atfork(nullptr, nullptr, [] {
      life().child = life().child || life().running > 0;
      life().number++;
    });
  });
  life().running += begins;
}

bool processEnds() { return life().ends.load(std::memory_order_relaxed); }

void atProcessEnd(std::function<void()> last) {
  std::call_once(life().end, [] { (void)std::atexit(endOfProcess); });
  const std::lock_guard<std::mutex> lock(life().mutex);
  life().last.push_back(std::move(last));
}

}  // namespace r2cc
