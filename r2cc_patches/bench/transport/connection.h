// One end of a connection and its requests, driven as NCCL's proxy drives them (transport/net.cc).
//
// Requests are posted in order and only the oldest is tested. A receive is posted for every free slot before its data
// can come. The request pointer holds 1 before each call, so that a transport which forgets to write it is caught. A
// null request means "not now": the same call is made again in a later pass.
#pragma once

#include <array>
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
};

using Handle = std::array<char, NCCL_NET_HANDLE_MAXSIZE>;

// How far the ends of one flow are at this rank: what their messages wait for.
struct FlowProgress {
  std::vector<uint64_t> done;  // messages, by end
  uint64_t turns = 0;          // that are over at all ends
};

// A window of at most --slots requests over an ordered list of messages. A receiving end adds or stores what arrives:
// data to be stored is received in place, data to be added in a slot of its own.
class Connection {
 public:
  Connection(const Net& net, const ConnectionId& id, const Options& options, bool sends);

  const ConnectionId& id() const { return id_; }
  bool sends() const { return sends_; }

  // Of a receiving end: starts listening; returns what the sending peer needs to connect.
  Handle listen();
  // One non-blocking attempt, of a sending end with its peer's handle, in which the transport keeps its state between
  // calls. True once the connection stands.
  bool connect(Handle& handle);
  void useBuffer(const FloatBuffer& data);
  void begin(const std::vector<Message>& messages);
  // Posts what it can, then tests the oldest request once. True if a message has completed.
  bool advance(const FlowProgress& progress);
  void close();

  // When each message of this iteration was delivered: when test() said that its receive is done.
  const std::vector<uint64_t>& deliveredNs() const { return deliveredNs_; }

 private:
  bool post(const FlowProgress& progress);
  ncclResult_t send(const Message& message, void** request);
  ncclResult_t receive(const Message& message, void** request);
  // True if the oldest request has completed; throws if its size is not the message's.
  bool testOldest();
  size_t slotOf(uint64_t message) const { return message % requests_.size(); }
  char* slotAddress(uint64_t message) const { return slotMemory_.bytes() + slotOf(message) * chunkBytes_; }

  const Net& net_;
  const ConnectionId id_;
  const bool sends_;
  const int rank_;
  const uint32_t chunkBytes_;
  Comm listener_;
  Comm comm_;
  FloatBuffer slotMemory_;
  char* data_ = nullptr;
  void* dataRegistration_ = nullptr;
  void* slotRegistration_ = nullptr;
  const std::vector<Message>* messages_;
  uint64_t posted_ = 0;
  uint64_t done_ = 0;
  std::vector<void*> requests_;
  std::vector<uint64_t> deliveredNs_;
};

}  // namespace r2cc::bench
