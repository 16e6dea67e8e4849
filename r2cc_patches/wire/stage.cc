#include "stage.h"

#include <algorithm>
#include <utility>

namespace r2cc::wire {
namespace {

constexpr size_t kFrameHeader = 14;
constexpr size_t kTypeAt = 12;
constexpr int kIpv4 = 0x0800;
constexpr int kIpv6 = 0x86dd;
constexpr int kTcp = 6;
constexpr int kUdp = 17;

// What an IPv4 or IPv6 packet carries; 0: it is none, or too short to say. No extension headers: guests send none.
int protocolOf(const Bytes& frame) {
  constexpr size_t kIpv4ProtocolAt = kFrameHeader + 9;
  constexpr size_t kIpv6ProtocolAt = kFrameHeader + 6;
  if (frame.size() <= kIpv4ProtocolAt) return 0;
  const int type = frame[kTypeAt] << 8 | frame[kTypeAt + 1];
  if (type == kIpv4) return frame[kIpv4ProtocolAt];
  return type == kIpv6 ? frame[kIpv6ProtocolAt] : 0;
}

bool chosen(const Impairment& impairment, const Bytes& frame) {
  if (impairment.above != 0 && frame.size() > kFrameHeader + impairment.above) return true;
  const int protocol = impairment.tcp || impairment.udp ? protocolOf(frame) : 0;
  return (impairment.tcp && protocol == kTcp) || (impairment.udp && protocol == kUdp);
}

}  // namespace

void Stage::impair(const Impairment& impairment, uint64_t nowNs) {
  const bool other = impairment.rateBps != impairment_.rateBps || impairment.burst != impairment_.burst;
  impairment_ = impairment;
  if (other) {  // another bucket begins full, as the kernel's does
    tokens_ = impairment.burst;
    refilledNs_ = nowNs;
    readyAtNs_ = 0;
  }
  if (!impairment.drop && !impairment.cut) return;
  counters_.dropped += queue_.size();  // what was on its way is lost, too
  queue_.clear();
  queuedBytes_ = 0;
}

bool Stage::push(Frame frame) {
  const bool lost = impairment_.loss > 0 && std::uniform_real_distribution<double>(0, 1)(random_) < impairment_.loss;
  if (impairment_.drop || impairment_.cut || lost || chosen(impairment_, *frame)) {
    counters_.dropped++;
    return true;
  }
  if (full()) {
    counters_.overrun++;
    return false;
  }
  queuedBytes_ += frame->size();
  queue_.push_back(std::move(frame));
  return true;
}

Frame Stage::front(uint64_t nowNs) {
  if (queue_.empty()) return nullptr;
  const Frame& frame = queue_.front();
  if (impairment_.rateBps == 0) return frame;
  refill(nowNs);
  const auto size = static_cast<uint32_t>(frame->size());
  const double missing = std::min(size, impairment_.burst) - tokens_;  // a larger frame takes a full bucket
  if (missing <= 0) return frame;
  readyAtNs_ = nowNs + static_cast<uint64_t>(missing * 8e9 / static_cast<double>(impairment_.rateBps)) + 1;
  return nullptr;
}

void Stage::pop() {
  const size_t size = queue_.front()->size();
  queue_.pop_front();
  queuedBytes_ -= size;
  if (impairment_.rateBps != 0) tokens_ -= static_cast<double>(size);
  counters_.frames++;
  counters_.bytes += size;
  readyAtNs_ = 0;
}

void Stage::refill(uint64_t nowNs) {
  const double seconds = static_cast<double>(nowNs - refilledNs_) / 1e9;
  tokens_ = std::min<double>(impairment_.burst, tokens_ + seconds * static_cast<double>(impairment_.rateBps) / 8);
  refilledNs_ = nowNs;
}

}  // namespace r2cc::wire
