// Test and drain of the IB transport on verbs that behave as no machine of ours can be made to.
#include "check.h"
#include "ib_verbs.h"
#include "own_process.h"

using namespace r2cc;
using r2cc::fake::Verbs;

namespace {

constexpr uint32_t kBytes = 48;

/// 'd' done with the right size, 's' done with a wrong one, '.' not yet, 'e' error.
char fate(void* request) {
  int done = 0, size = 0;
  if (r2ccNetIb.test(request, &done, &size) != ncclSuccess) return 'e';
  return !done ? '.' : size == kBytes ? 'd' : 's';
}

}  // namespace

TEST(net_ib_good_completion_behind_a_bad_one) {
  Verbs v;
  void* first = v.irecv(64);
  void* second = v.irecv(64);
  v.failed(0, IBV_WC_RETRY_EXC_ERR);
  v.arrived(1, kBytes);  // in the same batch
  CHECK_EQ(fate(second), 'd');
  CHECK_EQ(fate(first), 'e');  // nobody has to wait for a timer to learn that the comm is broken
}

TEST(net_ib_error_is_not_forgotten) {
  Verbs v;
  void* only = v.irecv(64);
  v.failed(0, IBV_WC_RETRY_EXC_ERR);
  CHECK_EQ(fate(only), 'e');
  CHECK_EQ(fate(only), 'e');
  CHECK(v.irecv(64) == nullptr);
}

TEST(net_ib_any_order) {
  Verbs v;
  void* requests[3] = {v.irecv(64), v.irecv(64), v.irecv(64)};
  for (uint64_t n = 0; n < 3; n++) v.arrived(n, kBytes);
  for (int n = 2; n >= 0; n--) CHECK_EQ(fate(requests[n]), 'd');
}

TEST(net_ib_drain_takes_what_comes_last) {
  Verbs v;
  void* requests[3] = {v.irecv(64), v.irecv(64), v.irecv(64)};
  v.arrived(0, kBytes);
  ibv_wc wc{};
  wc.wr_id = 1, wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM, wc.imm_data = htobe32(kBytes), wc.qp_num = 17;
  v.late.push_back(wc);
  r2ccNetIbOps.drain(v.comm());
  CHECK_EQ(fate(requests[2]), 'e');
  CHECK_EQ(fate(requests[1]), 'd');
  CHECK_EQ(fate(requests[0]), 'd');
  CHECK(v.irecv(64) == nullptr);  // nothing is posted any more
  CHECK(v.moves == (std::vector<ibv_qp_state>{IBV_QPS_ERR, IBV_QPS_RESET}));
}

TEST(net_ib_drain_is_bounded) {
  Verbs v;
  void* request = v.irecv(64);
  v.flushes = false;  // a dead device gives nothing back
  const check::Took took;
  r2ccNetIbOps.drain(v.comm());
  r2ccNetIbOps.fence(v.comm());
  CHECK(took.ns() < msToNs(400));
  CHECK_EQ(fate(request), 'e');
}

TEST(net_ib_complete_is_complete_whatever_the_driver_says) {
  Verbs v;
  void* first = v.irecv(64);
  void* second = v.irecv(64);
  v.arrived(0, kBytes);
  v.comm()->base.stats.fatalErrorCount = 1;  // the driver's thread reported the queue pair
  CHECK_EQ(fate(first), 'd');
  CHECK_EQ(fate(second), 'e');
}
