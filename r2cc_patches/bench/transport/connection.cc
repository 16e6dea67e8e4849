#include "bench/transport/connection.h"

#include <algorithm>
#include <string>

#include "bench/clock.h"
#include "bench/data/pattern.h"
#include "bench/errors.h"

namespace r2cc::bench {
namespace {

const std::vector<Message> kNoMessages;
void* const kPresetRequest = reinterpret_cast<void*>(1);  // transport/net.cc:1501

}  // namespace

RequestWindow::RequestWindow(const Net& net, const ConnectionId& id, int slots)
    : net_(net), id_(id), messages_(&kNoMessages), requests_(static_cast<size_t>(slots), nullptr) {}

void RequestWindow::restart(const std::vector<Message>& messages) {
  messages_ = &messages;
  posted_ = done_ = 0;
}

bool RequestWindow::mayPost(const FlowProgress& progress) const {
  if (posted_ == messages_->size() || posted_ == done_ + requests_.size()) return false;
  const Needs& needs = nextToPost().needs;
  return std::all_of(needs.begin(), needs.end(),
                     [&progress](const Need& need) { return progress.done[need.end] >= need.count; });
}

void** RequestWindow::presetRequest() {
  void** request = &requests_[slotOf(posted_)];
  *request = kPresetRequest;
  return request;
}

bool RequestWindow::accepted(ncclResult_t result, const char* call) {
  checkNet(result, call, id_.peer, id_.id);
  void* request = requests_[slotOf(posted_)];
  if (request == nullptr) return false;
  if (request == kPresetRequest) throw TransportError(std::string(call) + " set no request", id_.peer, id_.id);
  posted_++;
  return true;
}

bool RequestWindow::testOldest() {
  int done = 0;
  int sizes[NCCL_NET_MAX_REQUESTS] = {0};
  checkNet(net_.table().test(requests_[slotOf(done_)], &done, sizes), "test", id_.peer, id_.id);
  if (done == 0) return false;
  if (static_cast<uint32_t>(sizes[0]) != oldest().bytes) {
    throw TransportError("message " + std::to_string(done_) + " has " + std::to_string(sizes[0]) +
                             " bytes instead of " + std::to_string(oldest().bytes),
                         id_.peer, id_.id);
  }
  return true;
}

Sender::Sender(const Net& net, const ConnectionId& id, int slots, int rank)
    : RequestWindow(net, id, slots), comm_(net, CommKind::Send, id.peer, id.id), rank_(rank) {}

void Sender::useBuffer(const FloatBuffer& data) {
  data_ = data.bytes();
  registration_ = comm_.registerMemory(data_, data.sizeBytes());
}

bool Sender::post(const FlowProgress& progress) {
  if (!mayPost(progress) || nextToPost().turn > progress.turns) return false;
  const Message& message = nextToPost();
  void* profilerHandle = nullptr;
  return accepted(net_.table().isend(comm_.get(), data_ + message.offset, message.bytes, rank_, registration_,
                                     &profilerHandle, presetRequest()),
                  "isend");
}

bool Sender::advance(const FlowProgress& progress) {
  while (post(progress)) {
  }
  if (done_ == posted_ || !testOldest()) return false;
  done_++;
  return true;
}

Receiver::Receiver(const Net& net, const ConnectionId& id, int slots, uint32_t chunkBytes)
    : RequestWindow(net, id, slots),
      comm_(net, CommKind::Receive, id.peer, id.id),
      chunkBytes_(chunkBytes),
      slotMemory_(static_cast<size_t>(slots) * chunkBytes) {}

void Receiver::useBuffer(const FloatBuffer& data) {
  data_ = data.bytes();
  dataRegistration_ = comm_.registerMemory(data_, data.sizeBytes());
  slotRegistration_ = comm_.registerMemory(slotMemory_.bytes(), slotMemory_.sizeBytes());
}

void Receiver::begin(const std::vector<Message>& messages) {
  restart(messages);
  deliveredNs_.clear();
  deliveredNs_.reserve(messages.size());
}

bool Receiver::post(const FlowProgress& progress) {
  if (!mayPost(progress)) return false;
  const Message& message = nextToPost();
  const bool inPlace = message.action == Action::Store;
  void* address = inPlace ? data_ + message.offset : slotAddress(posted_);
  size_t size = inPlace ? message.bytes : chunkBytes_;
  int tag = id_.peer;
  void* registration = inPlace ? dataRegistration_ : slotRegistration_;
  void* profilerHandle = nullptr;
  void* profilerHandles = &profilerHandle;
  return accepted(
      net_.table().irecv(comm_.get(), 1, &address, &size, &tag, &registration, &profilerHandles, presetRequest()),
      "irecv");
}

bool Receiver::advance(const FlowProgress& progress) {
  while (post(progress)) {  // NCCL, too, posts to every free slot before it tests
  }
  return done_ < posted_ && finishOldest();
}

bool Receiver::finishOldest() {
  if (!testOldest()) return false;
  deliveredNs_.push_back(nowNs());
  const Message& message = oldest();
  if (message.action == Action::Reduce) {
    addInto(reinterpret_cast<float*>(data_ + message.offset), reinterpret_cast<const float*>(slotAddress(done_)),
            message.bytes / sizeof(float));
  }
  done_++;
  return true;
}

}  // namespace r2cc::bench
