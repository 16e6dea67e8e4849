// An inner net that lives in one process and keeps a record: numbered messages over in-memory wires, with every fault a
// real transport shows and, on top of it, the ones that no machine of ours can be made to show. What the resilient net
// must never do to a transport (contracts of ncclNet and of InnerOps) ends up in violations().
//
// The wires are as hostile as the real ones may be: a send reads its buffer some time after isend(); bytes that left a
// fenced sender still arrive; bytes held up by a silent cut arrive when it heals, unless the receiver was fenced.
//
// It can play RDMA with GPU memory (Play). GPU data is not where the GPU sees it before a flush on the comm that wrote
// it is over: until then a reader finds what was there before, and reads() notes a violation.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "inner/inner_net.h"
#include "wire/wire.h"

namespace r2cc::fake {

/// A NIC of the test: (host, rail).
using Nic = std::pair<int, int>;

class Fabric;

/// The `ctx` that NCCL would pass: which host is calling.
struct Host {
  Fabric* fabric;
  int index;
};

struct Mr;
struct Request;
struct Comm;
struct Listener;
struct Half;
struct Wire;

enum class Cut {
  Hold,  // bytes in flight wait for the cut to heal, as a transport that retransmits makes them
  Lose,  // bytes in flight are gone, and both ends see an error once it heals
};

/// The device of a host's rail, where hosts are told apart by it.
constexpr int kDevicesOfHost = 32;

/// Which kind of transport it is.
struct Play {
  bool needsAck = true;   // as a socket: a send is over when the kernel has it; else when the receiver has it
  bool anyOrder = false;  // completions come in any order, and requests may be tested in any order
  bool drains = false;    // once a comm is broken, test() hides its good completions until drain()
  bool gpu = false;       // takes GPU memory, by address and by DMA-BUF, and wants it flushed
  bool plain = false;     // sends any host memory, registered or not
  bool confirms = false;  // says what the other end's kernel has, which a process there can still read whatever happens
  bool devices = false;   // its devices can be lost, and opened anew; one such fabric at a time
  bool samples = false;   // says when the other end was last heard and what it carried: Fabric::heardAgo, carries
  bool parts = false;     // messages may be cut: all parts of one have its tag
};

/// A DMA-BUF registration: the file behind the descriptor at that time.
struct DmaBuf {
  Nic nic;
  const void* data;
  uint64_t inode;
};

struct Counts {
  int comms = 0, listens = 0, halves = 0, mrs = 0;  // alive now
  int made = 0, tuned = 0, fenced = 0;              // comms, ever
  bool clean() const { return comms == 0 && listens == 0 && halves == 0 && mrs == 0; }
};

class Fabric {
 public:
  /// `needsAck`: as a socket, a send is over when the kernel has the bytes; else, as RDMA, when the receiver has them.
  Fabric(int hosts, bool needsAck, uint64_t seed) : Fabric(hosts, Play{needsAck}, seed) {}
  Fabric(int hosts, const Play& play, uint64_t seed);
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  InnerNet inner() const { return {&net_, &ops_}; }
  void* context(int host) { return &hosts_[static_cast<size_t>(host)]; }

  void cut(Nic nic, Cut how);
  /// Only what goes from one NIC to the other; the way back stays open.
  void cutOneWay(Nic from, Nic to);
  void healOneWay(Nic from, Nic to);
  void heal(Nic nic);
  void healAll();
  /// Every comm this host has on the NIC fails at its next use, or else the first one it makes there.
  void breakComms(Nic nic);
  /// What this host's sends on the NIC have on the way is lost, and only its own kernel knows, who says so to whoever
  /// sends or asks (InnerOps::ended): a reset that the other end never saw.
  void resetSends(Nic nic);
  /// From now on a call takes but a part of a message that has arrived, as a read of a socket may.
  void readShort(bool on);
  /// Data to and from this NIC stands still, datagrams pass; the comms' kernels send it again and again.
  void stand(Nic nic, bool on);
  bool standsAt(Nic nic) const;
  /// The NIC's driver says that its device is lost: all that is there is dead, and nothing can be made on it.
  void loseDevice(Nic nic);
  /// From now on it can be opened anew.
  void returnDevice(Nic nic);
  /// How often it was, and how often that was tried.
  int reopened(Nic nic) const;
  int triedToReopen(Nic nic) const;
  /// connect() and listen() on this NIC fail at once, as long as it is set.
  void refuse(Nic nic, bool on);
  /// Registrations of this memory do not return as long as it is set.
  void holdMemory(const void* data, bool on);
  int heldMemory(const void* data) const;
  /// Calls of this kind on comms of the host on the NIC do not return as long as it is set.
  enum class Call : uint8_t { Fence, Drain };
  void hold(Nic nic, Call call, bool on);
  /// How many stand there.
  int held(Nic nic, Call call) const;
  /// While set, the wires of the host deliver nothing and its NICs hold what they have: its process is not running.
  void freeze(int host, bool on);
  /// Every comm heard the other end's kernel this long ago.
  void heardAgo(int64_t ns) { quietNs_ = ns; }
  /// Every comm says that it is always busy, at this part of a NIC's rate; what it really carries has no part in it.
  void carries(Nic nic, double part);
  /// No comm refuses a message for the moment any more, only what it has no room or no receive for.
  void takesAll() { takesAll_ = true; }
  /// GPUs see what NICs write, without a flush.
  void needsNoFlush(bool none = true) { needsNoFlush_ = none; }
  /// A device of both hosts takes no memory any more; -1: each does.
  void refuseMemory(int dev) { refusesMemory_ = dev; }
  /// A flush is asked for, and the transport has nothing to do for it.
  void flushesNothing() { flushesNothing_ = true; }
  /// Of the wire, whatever a message's size; each waits for the one before.
  void messagesTake(int64_t ns) { messageNs_ = ns; }
  /// Sends end this much later than their message arrives (direct transports only).
  void endSendsLate(int64_t delayNs);
  /// Flushes take this much longer.
  void endFlushesLate(int64_t delayNs) { flushLateNs_ = delayNs; }

  bool carries(Nic from, Nic to) const;
  Counts counts() const;
  /// How many comms of the host on the NIC are neither fenced nor closed.
  int lanes(Nic nic) const;
  /// Live comms of the host that do not have exactly `count` buffers registered.
  int lanesWithout(int host, int count) const;
  /// Devices of the host on which a usable comm has this buffer registered, ascending.
  std::vector<int> devsWith(int host, const void* data) const;
  std::vector<DmaBuf> dmaBufs() const;
  /// Whoever reads GPU memory says so: false, and a violation, when no flush has made all of it visible.
  bool reads(const void* data, size_t size);
  int flushes(Nic nic) const;
  std::vector<std::string> violations() const;
  void violation(const std::string& what);

 private:
  friend struct Table;
  friend struct Use;
  friend struct Beside;
  using Lock = std::unique_lock<std::mutex>;

  ncclResult_t listen(Host& host, int dev, void* handle, void** listenComm);
  ncclResult_t connect(Host& host, int dev, void* handle, void** comm);
  ncclResult_t accept(Listener& listener, void** comm);
  ncclResult_t regMr(Comm& comm, void* data, size_t size, int type, void** handle);
  ncclResult_t regDmaBuf(Comm& comm, void* data, size_t size, int type, int fd, void** handle);
  ncclResult_t deregMr(Comm& comm, Mr& mr);
  ncclResult_t post(Comm& comm, void* data, size_t size, int tag, Mr* mr, Request** request);
  ncclResult_t flush(Comm& comm, int n, void** data, int* sizes, void** mrs, Request** request);
  ncclResult_t test(Request& request, int* done, int* size);
  ncclResult_t testFlush(Request& request, int* done);
  void tune(Comm& comm);
  void drain(Comm& comm);
  void fence(Comm& comm);
  void close(Comm& comm, bool sends);
  void cancelConnect(Half& half);
  void cancelListen(Listener& listener);

  struct Device {
    bool lost = false, there = true;
    bool said = false;  // an event waits
    int reopened = 0, tried = 0;
    Fd events;
    void say();
  };
  int openEvents(Nic nic);
  bool readEvent(Nic nic, NicEvent* out);
  bool reopen(Nic nic, NicEvent* out);
  bool lostDevice(Nic nic) const;

  void run();
  void pass(Lock& lock, const Comm& comm, Call call);
  void passMemory(Lock& lock, const void* data);
  void note(const std::string& what);
  bool refuses(Nic nic) const { return refused_.count(nic) != 0 || lostDevice(nic); }
  bool mayPost(const Comm& comm) const;
  void checkMemory(const Comm& comm, const void* data, size_t size, const Mr* mr);
  bool open(const Wire& wire) const;
  bool hearsEnd(const Comm& comm) const;
  bool stands(const Wire& wire) const;
  bool carriesLocked(Nic from, Nic to) const;
  bool advance(Wire& wire, int64_t now);
  void read(Wire& wire, int64_t now);
  void deliver(Wire& wire, Request& into);
  void store(Comm& comm, Request& into, std::vector<uint8_t> bytes);
  void settle(Comm& comm, uint64_t before, bool visible);
  void forget(Comm& comm, const Mr& mr);
  void useMr(const Request& request, const char* how);
  bool over(const Request& request) const;
  void dropUnread(Wire& wire);
  LaneSample sample(Comm& comm);
  int64_t unconfirmed(Comm& comm);
  int64_t unread(Comm& comm);
  bool ended(const Comm& comm) const;
  Comm& newComm(Host& host, int dev, bool sends, const std::shared_ptr<Wire>& wire);
  int64_t someDelay(int64_t mostNs);
  bool sometimes(unsigned oneIn);

  const Play play_;
  const ncclNet_t net_;
  const InnerOps ops_;
  std::deque<Host> hosts_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::mt19937_64 random_;
  // Nothing is freed before the fabric is: what is touched after its end must be seen, not crash.
  std::deque<Comm> comms_;
  std::deque<Request> requests_;
  std::deque<Mr> mrs_;
  std::vector<DmaBuf> dmaBufs_;
  std::map<const uint8_t*, size_t> unflushed_;  // GPU memory that was written, by its start
  std::deque<Listener> listeners_;
  std::deque<Half> halves_;
  std::vector<std::shared_ptr<Wire>> wires_;
  static std::atomic<Fabric*> playing_;  // whose devices are asked for: InnerOps say no more than a number
  std::map<Nic, Device> devices_;
  std::set<Nic> cut_, armed_, refused_, standing_;
  std::set<std::pair<Nic, Nic>> oneWay_;
  std::set<int> frozen_;
  std::set<std::pair<Nic, Call>> holds_;
  std::map<std::pair<Nic, Call>, int> held_;
  std::set<const void*> memoryHolds_;
  std::map<const void*, int> memoryHeld_;
  std::condition_variable released_;
  std::map<Nic, double> parts_;
  std::atomic<bool> takesAll_{false};
  std::atomic<bool> needsNoFlush_{false}, flushesNothing_{false};
  std::atomic<int64_t> messageNs_{0};
  std::atomic<int> refusesMemory_{-1};
  std::atomic<int64_t> flushLateNs_{0};
  int64_t lateNs_ = 0;
  bool shortReads_ = false;
  std::atomic<int64_t> quietNs_{0};
  std::vector<std::string> violations_;
  Counts counts_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace r2cc::fake
