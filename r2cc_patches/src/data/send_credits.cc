// The sending end's slots of NCCL's, lent to us until the receiver has what they hold (slot_credits.h). NCCL's progress
// thread, but for what is said otherwise.
#include "data/send_connection.h"

#include <algorithm>

namespace r2cc {
/// Host memory alone: what NCCL sends from GPU memory may be the user's own buffer, which no head protects. Of a
/// smaller message a copy costs no more.
bool SendConnection::lends(const Request& head) const {
  if (!credits_.room() || head.mr == nullptr || !inHostMemory(head.mr)) return false;
  return kept_.possible() && requests_.bytes(head) > kKeepBytes;
}

uint64_t SendConnection::headAfter(uint64_t head) {
  if (!kept_.possible()) return head;
  if (!credits_.begun()) return credits_.begin(head), head;
  const uint64_t end = released_.load(std::memory_order_relaxed);
  if (!credits_.told({toldFrom_, end, head, toldLent_})) load_.over();
  passCredits();
  return credits_.publish();
}

ncclResult_t SendConnection::moreCredit(uint64_t& head, bool& more) {
  const bool ended = over();  // first: a receiver's Bye acknowledges, and then closes
  passCredits();
  if (!credits_.empty()) lookAtLent();
  more = credits_.news();
  if (more) head = credits_.publish();
  // NCCL has nothing to send or to test while its GPU waits for a slot: only here it hears that none comes.
  return ended && !credits_.empty() ? overNow() : ncclSuccess;
}

void SendConnection::passCredits() {
  const uint64_t through = acked();
  while (!credits_.empty() && (!credits_.oldest().lent || credits_.oldest().end <= through)) passOldest();
}

void SendConnection::passOldest() {
  load_.over();
  credits_.pass();
}

/// The GPU may wait for slots: whether the receiver's kernel has what they hold, or a copy of ours by now.
void SendConnection::lookAtLent() {
  const int64_t now = nowNs();
  const uint64_t steps = credits_.lentSteps();
  if (!lentLooks_.due(steps, now)) {
    if (lentLooks_.blind(steps)) services_.fetchAcks();  // as often as that allows
    return;
  }
  const Owned owned(owner_, Owned::Wait::No);
  if (!owned || over()) return;
  while (!credits_.empty()) {
    const SlotCredits::Told& told = credits_.oldest();
    for (uint64_t number = told.first; told.lent && number < told.end; number++) {
      Request& r = requests_[number];
      if (r.number < acked() || r.surety == Surety::Copy || r.surety == Surety::Kernel) continue;
      const bool sent = r.state == RequestState::Released;
      const uint64_t lacking = sent ? kept_.lacking(r, lanes_, acked()) : KeptMessages::kNobodyKnows;
      if (lacking != 0) {
        lentLooks_.lacks(number, lacking == KeptMessages::kNobodyKnows ? 0 : lacking, now);
        lookForEndOf(r);
        return services_.fetchAcks();
      }
      r.surety = Surety::Kernel;
    }
    passOldest();
  }
  lentLooks_.allThere(now);
}

/// NCCL takes the memory away. What of it was lent is copied: it was told that this is done. A lane that sends it again
/// just now is given up, and sends no more of it.
void SendConnection::onDeregister(const void* mr) {
  std::vector<LanePtr> readers;
  {
    const Owned owned(owner_, Owned::Wait::Yes);
    for (Request& r : requests_) {
      if (r.surety != Surety::Slot || r.held() || r.mr != mr || r.number < acked()) continue;
      if (r.inner != nullptr) readers.push_back(findLane(r.lane));
      kept_.keep(r);
      r.wasLent = true;
    }
  }
  const std::string failingOver = failingOver_;  // this is no failover of a NIC's, and does not count
  for (const LanePtr& lane : readers) {
    if (lane != nullptr && findLane(lane->id) != nullptr) loseLane(lane, "its memory was taken back");
  }
  failingOver_ = failingOver;
}

bool SendConnection::hasSlots() const {
  return std::any_of(requests_.begin(), requests_.end(),
                     [this](const Request& r) { return r.surety == Surety::Slot && !r.held() && r.number >= acked(); });
}

bool SendConnection::owesLent() const {
  return std::any_of(requests_.begin(), requests_.end(),
                     [this](const Request& r) { return r.wasLent && r.surety == Surety::Copy && r.number >= acked(); });
}

}  // namespace r2cc
