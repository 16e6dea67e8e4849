#include "fake_net.h"

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

namespace r2cc::test {
namespace {

struct Wire {  // one connection: messages on their way, each until the receiver has taken it
  std::deque<std::vector<char>> messages;
  bool connected = false;
};

struct Comm;

struct FakeRequest {
  Comm* comm = nullptr;
  char* data = nullptr;
  size_t size = 0;
  int tests = 0;
};

struct Comm {
  enum class Kind { Listen, Send, Receive } kind = Kind::Listen;
  std::shared_ptr<Wire> wire;
  std::deque<std::unique_ptr<FakeRequest>> requests;  // oldest first
  std::map<void*, size_t> memory;                     // registered
  int calls = 0;
};

// A C interface has no `this`: the state is one object that the functions below share.
class FakeState {
 public:
  std::mutex mutex;
  FakeFaults faults;
  int nics = 1;
  std::string complaint;
  std::set<Comm*> comms;
  std::map<uint64_t, Comm*> listeners;
  uint64_t nextHandle = 1;
  int posts = 0;
  int isends = 0;
  int tests = 0;
  int messages = 0;
  uint64_t nulls = 0;

  void complain(const std::string& what) {
    if (complaint.empty()) complaint = what;
  }
  Comm* open(Comm::Kind kind, std::shared_ptr<Wire> wire) {
    auto* comm = new Comm{kind, std::move(wire), {}, {}, 0};
    comms.insert(comm);
    return comm;
  }
  void reset(const FakeFaults& wanted, int nicCount) {
    for (Comm* comm : comms) delete comm;
    comms.clear();
    listeners.clear();
    complaint.clear();
    faults = wanted;
    nics = nicCount;
    posts = isends = tests = messages = 0;
    nulls = 0;
  }
};

FakeState& state() {
  static FakeState fake;
  return fake;
}

using Lock = std::lock_guard<std::mutex>;

ncclResult_t fakeInit(void** context, uint64_t, ncclNetCommConfig_t*, ncclDebugLogger_t, ncclProfilerCallback_t) {
  *context = &state();
  return ncclSuccess;
}

ncclResult_t fakeDevices(int* count) {
  *count = state().nics;
  return ncclSuccess;
}

ncclResult_t fakeProperties(int device, ncclNetProperties_t* properties) {
  static char names[][8] = {"fake0", "fake1", "fake2", "fake3", "fake4"};
  properties->name = names[device];
  properties->ptrSupport = NCCL_PTR_HOST;
  properties->speed = 1000;
  properties->maxRecvs = 1;
  return ncclSuccess;
}

ncclResult_t fakeListen(void*, int, void* handle, void** listenComm) {
  const Lock lock(state().mutex);
  Comm* comm = state().open(Comm::Kind::Listen, std::make_shared<Wire>());
  const uint64_t id = state().nextHandle++;
  state().listeners[id] = comm;
  std::memcpy(handle, &id, sizeof(id));
  *listenComm = comm;
  return ncclSuccess;
}

ncclResult_t fakeConnect(void*, int, void* handle, void** sendComm, ncclNetDeviceHandle_t**) {
  const Lock lock(state().mutex);
  uint64_t id = 0;
  std::memcpy(&id, handle, sizeof(id));
  // The handle is the caller's to keep between calls: like the socket transport, we count in it.
  int calls = 0;
  char* counter = static_cast<char*>(handle) + sizeof(id);
  std::memcpy(&calls, counter, sizeof(calls));
  calls++;
  std::memcpy(counter, &calls, sizeof(calls));
  *sendComm = nullptr;
  const auto listener = state().listeners.find(id);
  if (listener == state().listeners.end()) return ncclSystemError;
  if (calls <= state().faults.connectCalls) return ncclSuccess;
  listener->second->wire->connected = true;
  *sendComm = state().open(Comm::Kind::Send, listener->second->wire);
  return ncclSuccess;
}

ncclResult_t fakeAccept(void* listenComm, void** recvComm, ncclNetDeviceHandle_t**) {
  const Lock lock(state().mutex);
  auto* listener = static_cast<Comm*>(listenComm);
  *recvComm = nullptr;
  if (!listener->wire->connected || ++listener->calls <= state().faults.connectCalls) return ncclSuccess;
  *recvComm = state().open(Comm::Kind::Receive, listener->wire);
  return ncclSuccess;
}

ncclResult_t fakeRegister(void* comm, void* data, size_t size, int type, void** handle) {
  const Lock lock(state().mutex);
  if (type != NCCL_PTR_HOST) return ncclInternalError;
  static_cast<Comm*>(comm)->memory[data] = size;
  *handle = data;
  return ncclSuccess;
}

ncclResult_t fakeDeregister(void* comm, void* handle) {
  const Lock lock(state().mutex);
  if (static_cast<Comm*>(comm)->memory.erase(handle) == 0) state().complain("deregMr of memory that is not registered");
  return ncclSuccess;
}

bool registered(const Comm& comm, void* handle, const char* data, size_t size) {
  const auto found = comm.memory.find(handle);
  if (found == comm.memory.end()) return false;
  const auto* begin = static_cast<const char*>(found->first);
  return data >= begin && data + size <= begin + found->second;
}

// Common to isend and irecv: request limits, memory, preset pointers, "not now".
FakeRequest* post(Comm& comm, void* data, size_t size, void* handle, void** request) {
  FakeState& fake = state();
  if (*request != reinterpret_cast<void*>(1)) fake.complain("request pointer was not preset");
  if (comm.requests.size() >= NCCL_NET_MAX_REQUESTS) fake.complain("more requests than a comm may have");
  if (!registered(comm, handle, static_cast<char*>(data), size)) fake.complain("memory outside its registration");
  if (fake.faults.leaveRequestUnset) return nullptr;
  if (fake.faults.nullEvery > 0 && ++fake.posts % fake.faults.nullEvery == 0) {
    fake.nulls++;
    *request = nullptr;
    return nullptr;
  }
  comm.requests.push_back(std::make_unique<FakeRequest>(FakeRequest{&comm, static_cast<char*>(data), size, 0}));
  *request = comm.requests.back().get();
  return comm.requests.back().get();
}

ncclResult_t fakeIsend(void* sendComm, void* data, size_t size, int, void* handle, void*, void** request) {
  const Lock lock(state().mutex);
  FakeState& fake = state();
  if (fake.faults.failIsendAfter >= 0 && fake.isends++ >= fake.faults.failIsendAfter) return ncclRemoteError;
  post(*static_cast<Comm*>(sendComm), data, size, handle, request);
  return ncclSuccess;
}

ncclResult_t fakeIrecv(void* recvComm, int n, void** data, size_t* sizes, int*, void** handles, void**,
                       void** request) {
  const Lock lock(state().mutex);
  if (n != 1) return ncclInternalError;
  post(*static_cast<Comm*>(recvComm), data[0], sizes[0], handles[0], request);
  return ncclSuccess;
}

// Puts the message on the wire when its send is tested, not when it is posted: like the socket transport, it needs
// calls.
bool progressSend(FakeRequest& request) {
  Wire& wire = *request.comm->wire;
  if (wire.messages.size() >= 4 || state().faults.neverDeliver) return false;
  wire.messages.emplace_back(request.data, request.data + request.size);
  if (state().messages++ == state().faults.flipBitOfMessage)
    wire.messages.back()[2] ^= 0x10;  // a bit that no rounding hides
  return true;
}

ncclResult_t progressReceive(FakeRequest& request, bool& done) {
  Wire& wire = *request.comm->wire;
  done = !wire.messages.empty();
  if (!done) return ncclSuccess;
  const std::vector<char>& message = wire.messages.front();
  if (message.size() > request.size) return ncclInvalidUsage;
  std::memcpy(request.data, message.data(), message.size());
  request.size = message.size();
  wire.messages.pop_front();
  return ncclSuccess;
}

ncclResult_t fakeTest(void* opaque, int* done, int* sizes) {
  const Lock lock(state().mutex);
  FakeState& fake = state();
  auto& request = *static_cast<FakeRequest*>(opaque);
  Comm& comm = *request.comm;
  *done = 0;
  if (fake.faults.failTestAfter >= 0 && fake.tests++ >= fake.faults.failTestAfter) return ncclSystemError;
  if (comm.requests.empty() || comm.requests.front().get() != &request)
    fake.complain("test of a request that is not the oldest");
  if (request.tests++ < fake.faults.lateTests) return ncclSuccess;
  bool finished = false;
  if (comm.kind == Comm::Kind::Send) {
    finished = progressSend(request);
  } else if (const ncclResult_t result = progressReceive(request, finished); result != ncclSuccess) {
    return result;
  }
  if (!finished) return ncclSuccess;
  *sizes = static_cast<int>(request.size) - (fake.faults.shortSizes ? 1 : 0);
  *done = 1;
  comm.requests.pop_front();
  return ncclSuccess;
}

ncclResult_t fakeClose(void* opaque) {
  const Lock lock(state().mutex);
  auto* comm = static_cast<Comm*>(opaque);
  if (!comm->memory.empty()) state().complain("close before deregMr");
  if (state().comms.erase(comm) == 0) state().complain("comm closed twice");
  for (auto listener = state().listeners.begin(); listener != state().listeners.end();) {
    listener = listener->second == comm ? state().listeners.erase(listener) : std::next(listener);
  }
  delete comm;
  return ncclSuccess;
}

ncclResult_t fakeFinalize(void*) { return ncclSuccess; }

}  // namespace

const ncclNet_t& fakeNet(const FakeFaults& faults, int nics) {
  static const ncclNet_t table = [] {
    ncclNet_t t{};
    t.name = "Fake";
    t.init = fakeInit;
    t.devices = fakeDevices;
    t.getProperties = fakeProperties;
    t.listen = fakeListen;
    t.connect = fakeConnect;
    t.accept = fakeAccept;
    t.regMr = fakeRegister;
    t.deregMr = fakeDeregister;
    t.isend = fakeIsend;
    t.irecv = fakeIrecv;
    t.test = fakeTest;
    t.closeSend = t.closeRecv = t.closeListen = fakeClose;
    t.finalize = fakeFinalize;
    return t;
  }();
  const Lock lock(state().mutex);
  state().reset(faults, nics);
  return table;
}

std::string fakeComplaint() {
  const Lock lock(state().mutex);
  return state().complaint;
}

int fakeOpenComms() {
  const Lock lock(state().mutex);
  return static_cast<int>(state().comms.size());
}

uint64_t fakeNullRequests() {
  const Lock lock(state().mutex);
  return state().nulls;
}

}  // namespace r2cc::test
