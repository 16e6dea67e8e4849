#include "ib_verbs.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "ibvsymbols.h"

extern ncclIbvSymbols ibvSymbols;  // of the fork's ibvwrap.cc

namespace r2cc::fake {
namespace {
constexpr uint32_t kQpNum = 17;
}  // namespace

// Of verbs only this one is called through the library, where that is there and a test before has loaded it.
Verbs::Verbs()
    : loaded_(std::exchange(ibvSymbols.ibv_internal_modify_qp,
                            modifyQp)) {  // NOLINT(cppcoreguidelines-pro-type-member-init): the fork's own structures
  context_.device = &device_;
  context_.ops.poll_cq = pollCq;
  context_.ops.post_send = postSend;
  context_.ops.post_recv = postRecv;
  pd_.context = &context_;
  cq_.context = &context_;
  cq_.cq_context = this;
  qp_.context = &context_;
  qp_.qp_context = this;
  qp_.qp_num = kQpNum;
  handle_.mrs[0] = &mr_;
  void* memory = nullptr;
  if (posix_memalign(&memory, 4096, sizeof(ncclIbRecvComm)) != 0) throw std::bad_alloc();
  memset(memory, 0, sizeof(ncclIbRecvComm));
  comm_.reset(static_cast<ncclIbRecvComm*>(memory));
  ncclIbNetCommBase& base = comm_->base;
  base.vProps.ndevs = 1;
  base.nqps = base.nDataQps = 1;
  base.qps[0].qp = &qp_;
  base.activeQps[0] = &base.qps[0];
  base.ready = 1;
  comm_->devs[0].base.cq = &cq_;
  comm_->devs[0].base.pd = &pd_;
}

Verbs::~Verbs() { ibvSymbols.ibv_internal_modify_qp = loaded_; }

void* Verbs::irecv(size_t size) {
  void* data = buffer_;
  void* mr = &handle_;
  int tag = 0;
  void* request = nullptr;
  (void)r2ccNetIb.irecv(comm_.get(), 1, &data, &size, &tag, &mr, nullptr, &request);
  return request;
}

ibv_wc Verbs::completion(uint64_t wrId, ibv_wc_status status) const {
  ibv_wc wc{};
  wc.wr_id = wrId;
  wc.status = status;
  wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
  wc.qp_num = kQpNum;
  return wc;
}

void Verbs::arrived(uint64_t n, uint32_t size) {
  ibv_wc wc = completion(n, IBV_WC_SUCCESS);
  wc.imm_data = htobe32(size);
  queue_.push_back(wc);
}

void Verbs::failed(uint64_t wrId, ibv_wc_status status) { queue_.push_back(completion(wrId, status)); }

int Verbs::pollCq(ibv_cq* cq, int count, ibv_wc* out) {
  Verbs& v = *static_cast<Verbs*>(cq->cq_context);
  int n = 0;
  for (; n < count && !v.queue_.empty(); n++, v.queue_.pop_front()) out[n] = v.queue_.front();
  return n;
}

int Verbs::modifyQp(ibv_qp* qp, ibv_qp_attr* attr, int) { return of(qp).moves.push_back(attr->qp_state), 0; }

int Verbs::postRecv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr**) { return of(qp).receives_.push_back(wr->wr_id), 0; }

// The first send after the stop is the drain's mark: by then the queue pair is in the error state.
int Verbs::postSend(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr**) {
  Verbs& v = of(qp);
  if (!v.stopped()) return 0;
  v.queue_.insert(v.queue_.end(), v.late.begin(), v.late.end());
  if (!v.flushes) return 0;
  for (const uint64_t wrId : v.receives_) v.failed(wrId, IBV_WC_WR_FLUSH_ERR);
  v.failed(wr->wr_id, IBV_WC_WR_FLUSH_ERR);
  return 0;
}

}  // namespace r2cc::fake
