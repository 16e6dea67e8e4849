// One opened RDMA device of this process, and what is broken on it.
#pragma once

#include <ibvcore.h>
#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "faults/verbs/active_rule.h"
#include "faults/verbs/event_pipe.h"
#include "faults/verbs/held.h"

namespace r2cc::faults {

/// The driver's own calls.
struct DriverCalls {
  decltype(ibv_context_ops::poll_cq) pollCq = nullptr;
  decltype(ibv_context_ops::post_send) postSend = nullptr;
  decltype(ibv_context_ops::post_recv) postRecv = nullptr;
  int (*modifyQp)(ibv_qp*, ibv_qp_attr*, int) = nullptr;
};

class Device {
 public:
  /// `rules` are in force already: their events have been.
  Device(std::string name, const DriverCalls& driver, const ActiveRules& rules)
      : name_(std::move(name)), driver_(driver), rules_(oursOf(rules)) {
    refresh();
  }

  const std::string& name() const { return name_; }
  const DriverCalls& driver() const { return driver_; }

  /// The only cost of a call while nothing is broken.
  bool active() const { return active_.load(std::memory_order_relaxed); }

  /// Those for this device. Events of new ones are sent, and what follows the events of those that are over.
  void setRules(const ActiveRules& rules);

  /// From now on ours come here, too. Where the kernel's come; -1: it could not be done.
  int openEvents(int asyncFd);
  void closeEvents();

  /// As ibv_poll_cq.
  int poll(ibv_cq* cq, int room, ibv_wc* out);

  /// What this call has to fail with; 0: nothing. `qp` may be null.
  int errorOf(VerbsCall call, const ibv_qp* qp);

  /// After a queue pair was changed: its peer is known from then on; one that is reset works again.
  void modified(ibv_qp* qp, const ibv_qp_attr& attr, int mask);
  /// Before it is destroyed, and before a completion queue is.
  void forget(const ibv_qp* qp);
  void forget(const ibv_cq* cq);

  /// In a child of fork: what another thread held is free.
  void inChild();

 private:
  struct QueuePair {
    ibv_qp* handle = nullptr;
    std::optional<Ip> peer;
    bool sendBroken = false;  // what was sent behind the failed one is flushed, even what the peer has
    int owed = 0;             // what the first work that is given back says instead of flushed
    int64_t nextNs = 0;       // when one of a given rate may complete next

    bool broken() const { return sendBroken || owed != 0; }
  };

  ActiveRules oursOf(const ActiveRules& rules) const;
  void filter(Held& held, ibv_wc& completion, bool& kept);
  bool strike(const std::shared_ptr<ActiveRule>& one, Held& held, ibv_wc& completion, QueuePair& qp, bool& kept);
  void breakDown(ibv_wc& completion, int status, QueuePair& qp);
  void flush(ibv_wc& completion, QueuePair& qp);
  void drop(uint32_t qp);
  void refresh();

  const std::string name_;
  const DriverCalls driver_;
  std::atomic<bool> active_{false};
  std::mutex mutex_;
  ActiveRules rules_;
  std::unordered_map<uint32_t, QueuePair> qps_;
  std::unordered_map<const ibv_cq*, Held> held_;
  size_t broken_ = 0;  // queue pairs
  EventPipe events_;
};

}  // namespace r2cc::faults
