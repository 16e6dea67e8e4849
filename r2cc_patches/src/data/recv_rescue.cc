// What lies in the socket of a lane that is given up: the receiver's kernel has confirmed it, so that the sender may
// have told NCCL that it is done, and then nobody else has it (SendConnection::confirmed).
#include <algorithm>
#include <cstring>

#include "data/recv_connection.h"

namespace r2cc {
namespace {
constexpr int kNoTag = -1;
constexpr int kTries = 50;  // what is here is here at once, but a transport may take no request just now
}  // namespace

/// All of it is read into memory of our own, in the order in which it was sent, and handed over when NCCL asks. None is
/// larger than largest_: the sender of such a one waits for us, and says nothing of those behind it.
void RecvConnection::rescue(Lane& lane) {
  if (!lane.tells || lane.state != LaneState::Up) return;
  const std::vector<uint64_t> asked = lane.posted.all();
  const auto open = [&](uint64_t number) {
    return requests_[number].number == number && !requests_[number].finished();
  };
  if (std::any_of(asked.begin(), asked.end(), open)) return;  // that was not here whole, so nothing behind it is
  const uint64_t end = delivered() + Fenced::kMasked;
  for (uint64_t number = delivered(); number < end; number++) {
    const bool wanted = number < posted_;  // NCCL has asked for it, but the lane took no more
    if (plan_.laneFor(number) != &lane || rescued_.count(number) != 0 || (wanted && requests_[number].finished()))
      continue;
    const std::optional<size_t> size = readEarly(lane);
    if (!size) return;
    rescued_[number] = {std::move(early_), *size};
    if (wanted) (void)takeRescued(requests_[number]);
  }
}

/// The next message of the lane, into early_; nothing if it is not here whole.
std::optional<size_t> RecvConnection::readEarly(Lane& lane) {
  early_.reset(new uint8_t[largest_]);  // not filled: mostly nothing comes
  const ncclNet_t& net = *lane.inner.net;
  void* data = early_.get();
  size_t room = largest_;
  int tag = kNoTag, done = 0, size = 0;
  void *mr = nullptr, *profiler = nullptr, *inner = nullptr;
  for (int n = 0; n < kTries && inner == nullptr; n++) {
    if (net.irecv(lane.comm, 1, &data, &room, &tag, &mr, &profiler, &inner) != ncclSuccess) return std::nullopt;
  }
  for (int n = 0; n < kTries && inner != nullptr && done == 0; n++) {
    if (net.test(inner, &done, &size) != ncclSuccess) return std::nullopt;
  }
  return done == 0 ? std::nullopt : std::optional<size_t>(size);
}

/// False: it is larger than what NCCL asks for.
bool RecvConnection::takeRescued(Request& r) {
  const auto found = rescued_.find(r.number);
  if (found == rescued_.end()) return true;
  const Rescued message = std::move(found->second);
  rescued_.erase(found);
  if (message.size > r.size) {
    services_.warn("R2CC: a message of " + std::to_string(message.size) + " bytes from peer " + peer.describe() +
                   " came where NCCL asked for " + std::to_string(r.size) + " at most: do all ranks call alike?");
    return false;
  }
  if (message.size > 0) memcpy(r.data, message.bytes.get(), message.size);
  r.size = message.size;
  finished(r);
  return true;
}

/// Who has an eye on it until it is acknowledged.
AckRule::Sender RecvConnection::senderOf(const Request& r) const {
  if (home_ == nullptr || !innerOf(home_).ops->plainMemory) return AckRule::Sender::Waits;
  if (r.size <= kKeepBytes) return AckRule::Sender::KeepsCopy;
  const LanePtr lane = r.size <= largest_ ? findLane(r.lane) : nullptr;
  return lane != nullptr && lane->tells ? AckRule::Sender::SeesOurKernel : AckRule::Sender::Waits;
}

}  // namespace r2cc
