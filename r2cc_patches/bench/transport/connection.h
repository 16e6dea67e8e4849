// The two ends of a connection and their requests, driven as NCCL's proxy drives them (transport/net.cc).
//
// Requests are posted in order and only the oldest is tested. A receive is posted for every free slot before its data
// can come. The request pointer holds 1 before each call, so that a transport which forgets to write it is caught. A
// null request means "not now": the same call is made again in a later pass.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/data/memory.h"
#include "bench/programs/weave.h"
#include "bench/transport/comm.h"

namespace r2cc::bench {

struct ConnectionId {
  int id;
  int peer;
  int channel;
  int nic;
  int part = 0;  // of the plan
};

// How far the ends of one flow are at this rank: what their messages wait for.
struct FlowProgress {
  std::vector<uint64_t> done;  // messages, by end
  uint64_t turns = 0;          // that are over at all ends
};

// What both ends share: a window of at most `slots` requests over an ordered list of messages.
class RequestWindow {
 public:
  RequestWindow(const Net& net, const ConnectionId& id, int slots);

  bool complete() const { return done_ == messages_->size(); }
  uint64_t done() const { return done_; }

 protected:
  void restart(const std::vector<Message>& messages);
  bool mayPost(const FlowProgress& progress) const;
  // True if the transport took the request.
  bool accepted(ncclResult_t result, const char* call);
  // True if the oldest request has completed; throws if its size is not the message's.
  bool testOldest();

  const Message& nextToPost() const { return (*messages_)[posted_]; }
  const Message& oldest() const { return (*messages_)[done_]; }
  size_t slotOf(uint64_t message) const { return message % requests_.size(); }
  void** presetRequest();

  const Net& net_;
  ConnectionId id_;
  const std::vector<Message>* messages_;
  uint64_t posted_ = 0;
  uint64_t done_ = 0;

 private:
  std::vector<void*> requests_;
};

class Sender : public RequestWindow {
 public:
  Sender(const Net& net, const ConnectionId& id, int slots, int rank);

  Comm& comm() { return comm_; }
  const ConnectionId& id() const { return id_; }
  void useBuffer(const FloatBuffer& data);
  void begin(const std::vector<Message>& messages) { restart(messages); }

  // Posts what it can, then tests the oldest request once. True if a message has completed.
  bool advance(const FlowProgress& progress);

 private:
  bool post(const FlowProgress& progress);

  Comm comm_;
  int rank_;
  char* data_ = nullptr;
  void* registration_ = nullptr;
};

// Adds or stores what arrives. Data to be stored is received in place, data to be added in a slot of its own.
class Receiver : public RequestWindow {
 public:
  Receiver(const Net& net, const ConnectionId& id, int slots, uint32_t chunkBytes);

  Comm& comm() { return comm_; }
  const ConnectionId& id() const { return id_; }
  void useBuffer(const FloatBuffer& data);
  void begin(const std::vector<Message>& messages);

  bool advance(const FlowProgress& progress);

  // When each message of this iteration was delivered: when test() said that its receive is done.
  const std::vector<uint64_t>& deliveredNs() const { return deliveredNs_; }

 private:
  bool post(const FlowProgress& progress);
  bool finishOldest();
  char* slotAddress(uint64_t message) const { return slotMemory_.bytes() + slotOf(message) * chunkBytes_; }

  Comm comm_;
  uint32_t chunkBytes_;
  FloatBuffer slotMemory_;
  char* data_ = nullptr;
  void* slotRegistration_ = nullptr;
  void* dataRegistration_ = nullptr;
  std::vector<uint64_t> deliveredNs_;
};

}  // namespace r2cc::bench
