// Acknowledgements in. By far the most of what comes, and nothing in them is for the engine: to wake it for one costs
// ten times what reading it does. So they have sockets of their own, and are read by the threads of NCCL that wait for
// them, between two looks at the rest; by the engine when it looks at everything anyway.
#include <sys/epoll.h>

#include <algorithm>

#include "engine/engine.h"
#include "engine/engine_tags.h"
#include "wire/side_filter.h"

namespace r2cc {
namespace {

// However many threads wait; and a flood takes a fifth of their time. A look may have been long because we did not run.
constexpr int64_t kFetchEveryNs = usToNs(20), kRestPerWork = 4, kMostRestNs = msToNs(1);

}  // namespace

void Engine::watchAcks() {
  ackEpoll_ = epoll_create1(EPOLL_CLOEXEC);
  keepOnlyFor(self_.id, side_.ackFds());
  for (size_t nic = 0; nic < nics_.size(); nic++) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = nic;
    const int fd = side_.ackFds()[nic];
    if (ackEpoll_ < 0 || (fd >= 0 && epoll_ctl(ackEpoll_, EPOLL_CTL_ADD, fd, &event) != 0)) {
      throw std::runtime_error("out of file descriptors");
    }
  }
}

/// NCCL's thread holds a connection here, for which the engine may wait with the mutex: never the other way round.
void Engine::fetchAcks() {
  const int64_t now = nowNs();
  if (now < nextAckFetch_.load(std::memory_order_relaxed)) return;
  const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (!lock) return;
  catchUp();
  readAcks();
  const int64_t end = nowNs();
  nextAckFetch_ = end + std::clamp(kRestPerWork * (end - now), kFetchEveryNs, kMostRestNs);
}

/// With the mutex held. Takes no connection's ownership.
void Engine::readAcks() {
  epoll_event events[16];
  const int count = epoll_wait(ackEpoll_, events, 16, 0);
  for (int i = 0; i < count; i++) {
    const size_t nic = events[i].data.u64;
    if (nic >= kTagStream) {
      readStream(static_cast<int>(nic - kTagStream));
      continue;
    }
    SideChannel::receive(side_.ackFds()[nic], [&](const NicAddress& from, const uint8_t* data, size_t size) {
      onAcks(nic, from, data, size);
    });
  }
}

/// What else the header tells, links above all, the engine hears of by itself: here it might have to fence a connection
/// that this thread holds.
void Engine::onAcks(size_t nic, const NicAddress& from, const uint8_t* data, size_t size) {
  const auto parsed = Parsed::open(data, size);
  if (!parsed) return void(dropped_.malformed++);
  if (parsed->header().keyOfSender == 0) return void(dropped_.stranger++);  // it does not receive from us
  Peer* peer = genuine(*parsed);
  if (peer == nullptr) return;
  if (!fresh(*peer, *parsed)) return heardTwin(*peer, nic, from, parsed->header());
  heard(*peer, nic, from, parsed->header());
  takeAcks(*peer, *parsed);
}

void Engine::takeAcks(Peer& peer, const Parsed& parsed) {
  const bool whole = parsed.forEach([&](Type type, Reader& reader) {
    Ack ack;
    if (type == Type::Ack) reader(ack);
    if (type != Type::Ack || !reader.ok()) return void(dropped_.malformed++);
    const auto connection = peer.sends.find(ack.connection);
    if (connection != peer.sends.end()) connection->second->onAck(ack.delivered);
  });
  if (!whole) dropped_.malformed++;
}

}  // namespace r2cc
