// The sending end's slots of NCCL's, lent to us until the receiver has what they hold (slot_credits.h). NCCL's progress
// thread, but for what is said otherwise.
#include <algorithm>

#include "data/send_connection.h"

namespace r2cc {
namespace {
constexpr uint64_t kStepsThatMatter = 4;  // of eight: with so many lent, the GPU may have to wait
constexpr int64_t kLentLookNs = 50000;    // with fewer: a look is a system call
}  // namespace

/// Host memory alone: what NCCL sends from GPU memory may be the user's own buffer, which no head protects.
bool SendConnection::lends(const Request& r) const {
  return credits_.room() && kept_.possible() && r.mr != nullptr && inHostMemory(r.mr);
}

uint64_t SendConnection::headAfter(uint64_t head) {
  if (!kept_.possible()) return head;
  if (!credits_.begun()) return credits_.begin(head), head;
  if (credits_.full()) passOldest(acked());  // never: that is more than NCCL has slots
  credits_.told({toldFrom_, released_.load(std::memory_order_relaxed), head, toldLent_});
  passCredits();
  return credits_.publish();
}

bool SendConnection::moreCredit(uint64_t& head) {
  if (!credits_.empty()) passCredits();
  if (!credits_.empty()) lookAtLent();
  if (!credits_.news()) return false;
  head = credits_.publish();
  return true;
}

void SendConnection::passCredits() {
  const uint64_t through = acked();
  while (!credits_.empty() && (!credits_.oldest().lent || credits_.oldest().end <= through)) passOldest(through);
}

void SendConnection::passOldest(uint64_t through) {
  const SlotCredits::Told& told = credits_.oldest();
  for (uint64_t number = told.first; number < std::min(told.end, through); number++) {
    kept_.acknowledged(requests_[number].size);
  }
  load_.over();
  credits_.pass();
}

/// The GPU may wait for slots: whether the receiver's kernel has what they hold, or a copy of ours by now.
void SendConnection::lookAtLent() {
  const int64_t now = nowNs();
  if (credits_.lentSteps() < kStepsThatMatter && now - lookedAtLent_ < kLentLookNs) return;
  lookedAtLent_ = now;
  const Owned owned(owner_, Owned::Wait::No);
  if (!owned || over()) return;
  const auto free = [&](Request& r) {
    if (r.number < acked() || r.surety == Surety::Copy || r.surety == Surety::Kernel) return true;
    if (r.state != RequestState::Released || !kept_.confirmed(r, lanes_, acked())) return false;
    r.surety = Surety::Kernel;
    return true;
  };
  while (!credits_.empty()) {
    const SlotCredits::Told& told = credits_.oldest();
    for (uint64_t number = told.first; told.lent && number < told.end; number++) {
      if (free(requests_[number])) continue;
      lookForEndOf(requests_[number]);
      return services_.fetchAcks();
    }
    passOldest(acked());
  }
}

/// NCCL takes the memory away. What of it was lent is copied: it was told that this is done. Owner held.
void SendConnection::onDeregister(const void* mr) {
  for (Request& r : requests_) {
    if (r.surety == Surety::Slot && r.state == RequestState::Released && r.mr == mr && r.number >= acked()) {
      kept_.keep(r);
    }
  }
}

}  // namespace r2cc
