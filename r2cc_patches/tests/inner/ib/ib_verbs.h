// A receiving comm of the fork's IB transport on verbs that do what the test says: which completions come, in what
// order, and whether a queue pair in error gives its work back.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "common.h"  // of the fork's net_ib
#include "inner/net_ib_ops.h"

namespace r2cc::fake {

class Verbs {
 public:
  Verbs();
  ~Verbs();
  Verbs(const Verbs&) = delete;
  Verbs& operator=(const Verbs&) = delete;

  /// Posts a receive of `size` bytes; its request.
  void* irecv(size_t size);
  /// The message for the n-th receive has come whole.
  void arrived(uint64_t n, uint32_t size);
  /// A completion with an error.
  void failed(uint64_t wrId, ibv_wc_status status);

  /// Whether posted work comes back as flushed: what a queue pair in the error state does.
  bool flushes = true;
  /// What arrives at the very moment at which the queue pair is stopped: told before the flushed work.
  std::vector<ibv_wc> late;
  /// What the queue pair was moved to.
  std::vector<ibv_qp_state> moves;
  ncclIbRecvComm* comm() { return comm_.get(); }

 private:
  static Verbs& of(ibv_qp* qp) { return *static_cast<Verbs*>(qp->qp_context); }
  static int pollCq(ibv_cq* cq, int count, ibv_wc* out);
  static int postSend(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad);
  static int modifyQp(ibv_qp* qp, ibv_qp_attr* attr, int mask);
  static int postRecv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad);
  ibv_wc completion(uint64_t wrId, ibv_wc_status status) const;
  bool stopped() const { return comm_->base.ready == 0; }

  struct Free {
    void operator()(void* memory) const { free(memory); }
  };

  int (*const loaded_)(ibv_qp*, ibv_qp_attr*, int);  // the library's, or null
  // NOLINTBEGIN(bugprone-invalid-enum-default-initialization): the library's structures, all zero as it makes them
  ibv_device device_{};
  ibv_context context_{};
  ibv_pd pd_{};
  ibv_cq cq_{};
  ibv_qp qp_{};
  ibv_mr mr_{};
  // NOLINTEND(bugprone-invalid-enum-default-initialization)
  ncclIbMrHandle handle_{};
  std::unique_ptr<ncclIbRecvComm, Free> comm_;
  std::deque<ibv_wc> queue_;
  std::deque<uint64_t> receives_;
  char buffer_[64] = {};
};

}  // namespace r2cc::fake
