// The RDMA devices that this process has open, by their contexts.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "faults/verbs/device.h"

namespace r2cc::faults {

class Devices {
 public:
  /// Without a lock: calls on the data path ask. Null: it is none of ours.
  Device* of(const ibv_context* context) const {
    for (const Place& place : places_)
      if (place.context.load(std::memory_order_acquire) == context) return place.device;
    return nullptr;
  }

  /// Where the kernel's events of a device come, by the program's descriptor for them; -1: that is none of ours.
  int kernelsFd(int programs) const {
    for (const Place& place : places_)
      if (place.programsFd == programs) return place.kernelsFd;
    return -1;
  }

  /// Puts `ours` in the place of the driver's calls on the data path. One that finds no place is left alone.
  void open(ibv_context* context, const DriverCalls& ours, decltype(DriverCalls::modifyQp) modifyQp);
  /// Before the context is closed; the driver's calls are back.
  void close(ibv_context* context);

  void setRules(const ActiveRules& rules);

  /// Names of the open ones, and of those that the kernel knows.
  std::set<std::string> names() const;

  void inChild();

 private:
  struct Place {
    std::atomic<const ibv_context*> context{nullptr};
    Device* device = nullptr;
    std::atomic<int> programsFd{-1}, kernelsFd{-1};
  };

  static constexpr size_t kMost = 64;  // contexts: a process of NCCL has two a NIC

  mutable std::mutex mutex_;
  std::array<Place, kMost> places_;
  std::vector<std::unique_ptr<Device>> all_;  // never destroyed: a call may still be in one
  ActiveRules rules_;
};

}  // namespace r2cc::faults
