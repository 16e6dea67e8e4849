#include "faults/verbs/devices.h"

#include <dirent.h>

#include <algorithm>
#include <new>

namespace r2cc::faults {

namespace {

constexpr char kKernelsDevices[] = "/sys/class/infiniband";

}  // namespace

void Devices::open(ibv_context* context, const DriverCalls& ours, decltype(DriverCalls::modifyQp) modifyQp) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto free = [](const Place& place) { return place.context == nullptr; };
  Place* const place = std::find_if(places_.begin(), places_.end(), free);
  if (place == places_.end()) return;
  ibv_context_ops& ops = context->ops;
  const DriverCalls driver = {ops.poll_cq, ops.post_send, ops.post_recv, modifyQp};
  all_.push_back(std::make_unique<Device>(context->device->name, driver, rules_));
  place->device = all_.back().get();
  place->kernelsFd = place->device->openEvents(context->async_fd);
  place->programsFd = context->async_fd;
  place->context = context;
  ops.poll_cq = ours.pollCq;
  ops.post_send = ours.postSend;
  ops.post_recv = ours.postRecv;
}

void Devices::close(ibv_context* context) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto its = [context](const Place& place) { return place.context == context; };
  Place* const place = std::find_if(places_.begin(), places_.end(), its);
  if (place == places_.end()) return;
  const DriverCalls& driver = place->device->driver();
  context->ops.poll_cq = driver.pollCq;
  context->ops.post_send = driver.postSend;
  context->ops.post_recv = driver.postRecv;
  place->programsFd = -1;
  place->device->closeEvents();
  place->context = nullptr;
}

void Devices::setRules(const ActiveRules& rules) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& one : rules_)
    if (std::find(rules.begin(), rules.end(), one) == rules.end()) one->over = true;
  rules_ = rules;
  for (const Place& place : places_)
    if (place.context != nullptr) place.device->setRules(rules_);
}

std::set<std::string> Devices::names() const {
  std::set<std::string> found;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Place& place : places_)
      if (place.context != nullptr) found.insert(place.device->name());
  }
  DIR* const folder = opendir(kKernelsDevices);
  if (folder == nullptr) return found;
  while (const dirent* entry = readdir(folder))
    if (entry->d_name[0] != '.') found.insert(entry->d_name);
  closedir(folder);
  return found;
}

void Devices::inChild() {
  new (&mutex_) std::mutex;
  for (const auto& device : all_) device->inChild();
}

}  // namespace r2cc::faults
