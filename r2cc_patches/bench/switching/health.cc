#include "bench/switching/health.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "record/r2cc_health.h"

namespace r2cc::bench {
namespace {

constexpr int kMostHealthNics = 64;
constexpr uint64_t kSchedule = 1;                   // there is one
constexpr std::chrono::milliseconds kLookEvery{5};  // a switch takes longer by far

template <class Function>
Function* symbolOf(void* handle, const char* name) {
  void* symbol = handle != nullptr ? dlsym(handle, name) : nullptr;
  Function* function = nullptr;
  std::memcpy(&function, &symbol, sizeof(function));
  return function;
}

}  // namespace

Health loadHealth(const std::string& library, bool forSchedules) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  Health health;
  if (auto* read = symbolOf<decltype(r2ccHealth)>(handle, "r2ccHealth")) {
    health.read = [read] {
      std::vector<R2ccNicHealth> nics(kMostHealthNics);
      nics.resize(static_cast<size_t>(std::clamp(read(nics.data(), kMostHealthNics), 0, kMostHealthNics)));
      std::vector<NicState> states;
      states.reserve(nics.size());
      for (const R2ccNicHealth& nic : nics) states.push_back({nic.capacity, nic.rate_gbit});
      return states;
    };
  }
  if (auto* uneven = symbolOf<decltype(r2ccUnevenLoad)>(handle, "r2ccUnevenLoad")) {
    health.loadUnevenly = [uneven](int begins, bool inTurn) { uneven(begins, kSchedule, inTurn ? 1 : 0); };
  }
  auto* connects = symbolOf<decltype(r2ccScheduleConnects)>(handle, "r2ccScheduleConnects");
  if (connects && forSchedules) {
    connects(1, kSchedule, UINT64_MAX, -1);  // the bench has a limit of its own
    health.connects = [connects](int turn) { connects(0, kSchedule, UINT64_MAX, turn); };
  }
  return health;
}

HealthWatch::HealthWatch(std::function<void()> look)
    : thread_([this, look = std::move(look)] {
        for (; !end_; std::this_thread::sleep_for(kLookEvery)) look();
      }) {}

HealthWatch::~HealthWatch() {
  end_ = true;
  thread_.join();
}

}  // namespace r2cc::bench
