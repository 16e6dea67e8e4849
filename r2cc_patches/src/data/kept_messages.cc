#include "data/kept_messages.h"

#include <cstring>

namespace r2cc {

bool KeptMessages::wantsLate(const Request& r, bool host, uint64_t posted, uint64_t acked, size_t budget) {
  const bool waits = requests_[posted - 1].finished();  // the newest, too, is in our kernel
  if (!possible_ || !waits || !host || r.size > std::min(largest_, kKeepLateBytes)) return false;
  // The rest is for small ones, which cannot go without. It may have been acknowledged just now, and is then forgotten.
  return roomFor(r.size + budget / 2, posted, acked, budget) && r.number >= first_;
}

bool KeptMessages::roomFor(size_t size, uint64_t posted, uint64_t acked, size_t budget) {
  for (; first_ < std::min(acked, posted); first_++) {
    const Request& r = requests_[first_];
    if (r.inner != nullptr) break;  // it went out again, and its lane still names it
    Copy& copy = copies_[first_ % kMostCopies];
    if (r.surety == Surety::Copy) bytes_ -= r.size;
    if (copy.size > kMostCopyBytes / kMostCopies) copy = {};
  }
  return posted - first_ < kMostCopies && bytes_ + size <= budget;
}

void KeptMessages::keep(Request& r) {
  Copy& copy = copies_[r.number % kMostCopies];
  if (copy.size < r.size) copy = {std::unique_ptr<uint8_t[]>(new uint8_t[r.size]), r.size};
  if (r.size > 0) memcpy(copy.data.get(), r.data, r.size);
  bytes_ += r.size;
  r.surety = Surety::Copy;
  r.data = copy.data.get();
  r.mr = nullptr;
}

bool KeptMessages::confirmed(const Request& r, const std::vector<LanePtr>& lanes, uint64_t acked) const {
  if (!possible_ || r.size > largest_ || r.number >= acked + Fenced::kMasked) return false;
  const auto of = [&](const LanePtr& lane) { return lane->id == r.lane; };
  const auto lane = std::find_if(lanes.begin(), lanes.end(), of);
  if (lane == lanes.end() || !(*lane)->tells || (*lane)->error) return false;
  const int64_t bytes = (*lane)->inner.ops->unconfirmed((*lane)->comm);
  return bytes >= 0 && static_cast<uint64_t>(bytes) <= (*lane)->sent - r.mark;
}

}  // namespace r2cc
