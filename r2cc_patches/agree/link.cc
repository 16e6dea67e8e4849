#include "link.h"

#include <utility>

namespace r2cc::agree {

Frame Link::add(Message message) {
  kept_.push_back({++added_, received_, std::move(message)});
  return kept_.back();
}

std::vector<Frame> Link::unacknowledged() const {
  std::vector<Frame> frames(kept_.begin(), kept_.end());
  for (Frame& frame : frames) frame.ack = received_;
  return frames;
}

bool Link::acknowledge(uint64_t ack) {
  if (ack > added_) return false;
  while (!kept_.empty() && kept_.front().seq <= ack) kept_.pop_front();
  return true;
}

Link::Verdict Link::receive(const Frame& frame) {
  if (!acknowledge(frame.ack)) return Verdict::Gap;
  if (frame.seq <= received_) return Verdict::Known;  // also a Ping
  if (frame.seq != received_ + 1) return Verdict::Gap;
  received_++;
  return Verdict::Take;
}

}  // namespace r2cc::agree
