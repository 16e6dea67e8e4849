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

Connection::Connection(const Net& net, const ConnectionId& id, const Options& options, bool sends)
    : net_(net),
      id_(id),
      sends_(sends),
      rank_(options.rank),
      chunkBytes_(options.chunkBytes),
      listener_(net, CommKind::Listen, id.peer, id.id),
      comm_(net, sends ? CommKind::Send : CommKind::Receive, id.peer, id.id),
      messages_(&kNoMessages),
      requests_(static_cast<size_t>(options.slots), nullptr) {
  if (!sends) slotMemory_ = FloatBuffer(requests_.size() * chunkBytes_);
}

Handle Connection::listen() {
  Handle handle{};
  const int device = net_.nics()[static_cast<size_t>(id_.nic)].device;
  checkNet(net_.table().listen(net_.context(), device, handle.data(), listener_.slot()), "listen", id_.peer, id_.id);
  return handle;
}

bool Connection::connect(Handle& handle) {
  ncclNetDeviceHandle_t* noDevice = nullptr;
  const int device = net_.nics()[static_cast<size_t>(id_.nic)].device;
  if (!comm_.open() && sends_) {
    checkNet(net_.table().connect(net_.context(), device, handle.data(), comm_.slot(), &noDevice), "connect", id_.peer,
             id_.id);
  } else if (!comm_.open()) {
    checkNet(net_.table().accept(listener_.get(), comm_.slot(), &noDevice), "accept", id_.peer, id_.id);
    if (comm_.open()) listener_.close();
  }
  return comm_.open();
}

void Connection::useBuffer(const FloatBuffer& data) {
  data_ = data.bytes();
  dataRegistration_ = comm_.registerMemory(data_, data.sizeBytes());
  if (!sends_) slotRegistration_ = comm_.registerMemory(slotMemory_.bytes(), slotMemory_.sizeBytes());
}

void Connection::begin(const std::vector<Message>& messages) {
  messages_ = &messages;
  posted_ = done_ = 0;
  deliveredNs_.clear();
  if (!sends_) deliveredNs_.reserve(messages.size());
}

bool Connection::post(const FlowProgress& progress) {
  if (posted_ == messages_->size() || posted_ == done_ + requests_.size()) return false;
  const Message& message = (*messages_)[posted_];
  const auto over = [&progress](const Need& need) { return progress.done[need.end] >= need.count; };
  if (!std::all_of(message.needs.begin(), message.needs.end(), over)) return false;
  if (sends_ && message.turn > progress.turns) return false;
  void*& request = requests_[slotOf(posted_)];
  request = kPresetRequest;
  const char* const call = sends_ ? "isend" : "irecv";
  checkNet(sends_ ? send(message, &request) : receive(message, &request), call, id_.peer, id_.id);
  if (request == nullptr) return false;
  if (request == kPresetRequest) throw TransportError(std::string(call) + " set no request", id_.peer, id_.id);
  posted_++;
  return true;
}

ncclResult_t Connection::send(const Message& message, void** request) {
  void* profilerHandle = nullptr;
  return net_.table().isend(comm_.get(), data_ + message.offset, message.bytes, rank_, dataRegistration_,
                            &profilerHandle, request);
}

ncclResult_t Connection::receive(const Message& message, void** request) {
  const bool inPlace = message.action == Action::Store;
  void* address = inPlace ? data_ + message.offset : slotAddress(posted_);
  size_t size = inPlace ? message.bytes : chunkBytes_;
  int tag = id_.peer;
  void* registration = inPlace ? dataRegistration_ : slotRegistration_;
  void* profilerHandle = nullptr;
  void* profilerHandles = &profilerHandle;
  return net_.table().irecv(comm_.get(), 1, &address, &size, &tag, &registration, &profilerHandles, request);
}

bool Connection::testOldest() {
  int done = 0;
  int sizes[NCCL_NET_MAX_REQUESTS] = {0};
  checkNet(net_.table().test(requests_[slotOf(done_)], &done, sizes), "test", id_.peer, id_.id);
  if (done == 0) return false;
  const uint32_t wanted = (*messages_)[done_].bytes;
  if (static_cast<uint32_t>(sizes[0]) == wanted) return true;
  throw TransportError("message " + std::to_string(done_) + " has " + std::to_string(sizes[0]) + " bytes instead of " +
                           std::to_string(wanted),
                       id_.peer, id_.id);
}

bool Connection::advance(const FlowProgress& progress) {
  while (post(progress)) {  // NCCL, too, posts to every free slot before it tests
  }
  if (done_ == posted_ || !testOldest()) return false;
  const Message& message = (*messages_)[done_];
  if (!sends_) deliveredNs_.push_back(nowNs());
  if (!sends_ && message.action == Action::Reduce) {
    addInto(reinterpret_cast<float*>(data_ + message.offset), reinterpret_cast<const float*>(slotAddress(done_)),
            message.bytes / sizeof(float));
  }
  done_++;
  return true;
}

void Connection::close() {
  comm_.close();
  listener_.close();
}

}  // namespace r2cc::bench
