// Devices that are lost and come back, as after a driver's reset: what was made before is dead for good.
#include <sys/eventfd.h>
#include <unistd.h>

#include "fake_parts.h"

namespace r2cc::fake {

std::atomic<Fabric*> Fabric::playing_{nullptr};

void Fabric::loseDevice(Nic nic) {
  const Lock lock(mutex_);
  Device& device = devices_[nic];
  device.lost = true, device.there = false;
  for (Comm& comm : comms_) {
    if (comm.nic() == nic) comm.error = true;
  }
  device.say();
}

void Fabric::returnDevice(Nic nic) {
  const Lock lock(mutex_);
  devices_[nic].there = true;
}

int Fabric::reopened(Nic nic) const {
  const Lock lock(mutex_);
  const auto found = devices_.find(nic);
  return found == devices_.end() ? 0 : found->second.reopened;
}

int Fabric::triedToReopen(Nic nic) const {
  const Lock lock(mutex_);
  const auto found = devices_.find(nic);
  return found == devices_.end() ? 0 : found->second.tried;
}

bool Fabric::lostDevice(Nic nic) const {
  const auto found = devices_.find(nic);
  return found != devices_.end() && found->second.lost;
}

void Fabric::Device::say() {
  said = true;
  const uint64_t one = 1;
  if (events.valid()) (void)!::write(events.get(), &one, sizeof(one));
}

int Fabric::openEvents(Nic nic) {
  const Lock lock(mutex_);
  Device& device = devices_[nic];
  if (!device.events.valid()) device.events = Fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  device.said = device.lost;
  return device.events.get();
}

bool Fabric::readEvent(Nic nic, NicEvent* out) {
  const Lock lock(mutex_);
  Device& device = devices_[nic];
  uint64_t count = 0;
  (void)!::read(device.events.get(), &count, sizeof(count));  // NOLINT(clang-analyzer-unix.BlockInCriticalSection)
  if (!std::exchange(device.said, false)) return false;
  *out = {false, true, "device_fatal"};
  return true;
}

bool Fabric::reopen(Nic nic, NicEvent* out) {
  const Lock lock(mutex_);
  Device& device = devices_[nic];
  if (!device.lost) note("a device is opened anew that was not lost");
  device.tried++;
  if (!device.there) return false;
  device.lost = false;
  device.events.reset();  // closing takes it out of every epoll set
  device.reopened++;
  *out = {true, false, "reopened"};
  return true;
}

}  // namespace r2cc::fake
