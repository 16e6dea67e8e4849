// In the place of libibverbs: one device, on which all that is posted is done at once.
// tests/lab/test_verbs_error_lab.py compiles it as libibverbs.so.1, with the names and versions of the real one
// (exports.map).
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cstring>
#include <deque>

#include <ibvcore.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

// NOLINTBEGIN(bugprone-invalid-enum-default-initialization,bugprone-throwing-static-initialization,clang-analyzer-cplusplus.NewDeleteLeaks,cppcoreguidelines-pro-type-member-init):
// as verbs are written in C.
namespace {

std::deque<ibv_wc> done;
uint32_t lastQp = 16;

int pollCq(ibv_cq* /*cq*/, int room, ibv_wc* out) {
  int given = 0;
  for (; given < room && !done.empty(); done.pop_front()) out[given++] = done.front();
  return given;
}

int postSend(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** /*bad*/) {
  ibv_wc one{};
  one.wr_id = wr->wr_id;
  one.qp_num = qp->qp_num;
  one.opcode = IBV_WC_RDMA_WRITE;
  one.status = qp->state == IBV_QPS_ERR ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS;
  done.push_back(one);
  return 0;
}

int postRecv(ibv_qp* /*qp*/, ibv_recv_wr* /*wr*/, ibv_recv_wr** /*bad*/) { return 0; }

/// What the kernel reads of a device's events.
struct Record {
  uint64_t element;
  uint32_t event, reserved;
};

}  // namespace

EXPORT ibv_device** ibv_get_device_list(int* count) {
  static ibv_device device{};
  std::strcpy(device.name, "fake0");
  *count = 1;
  return new ibv_device*[2]{&device, nullptr};
}

EXPORT void ibv_free_device_list(ibv_device** list) { delete[] list; }

EXPORT ibv_context* ibv_open_device(ibv_device* device) {
  auto* const context = new ibv_context{};
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return nullptr;
  context->device = device;
  context->async_fd = ends[0];
  context->cmd_fd = ends[1];
  context->ops.poll_cq = pollCq;
  context->ops.post_send = postSend;
  context->ops.post_recv = postRecv;
  return context;
}

EXPORT int ibv_close_device(ibv_context* context) {
  close(context->async_fd);
  close(context->cmd_fd);
  delete context;
  return 0;
}

EXPORT ibv_pd* ibv_alloc_pd(ibv_context* context) { return new ibv_pd{context, 0}; }

EXPORT ibv_cq* ibv_create_cq(ibv_context* context, int /*size*/, void*, ibv_comp_channel*, int) {
  auto* const cq = new ibv_cq{};
  cq->context = context;
  return cq;
}

EXPORT int ibv_destroy_cq(ibv_cq* cq) { return delete cq, 0; }

EXPORT ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  auto* const qp = new ibv_qp{};
  qp->context = pd->context;
  qp->send_cq = attr->send_cq;
  qp->qp_num = ++lastQp;
  return qp;
}

EXPORT int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  if ((mask & IBV_QP_STATE) != 0) qp->state = attr->qp_state;
  return 0;
}

EXPORT int ibv_destroy_qp(ibv_qp* qp) { return delete qp, 0; }

EXPORT ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t length, int /*access*/) {
  return new ibv_mr{pd->context, pd, address, length, 1, 2, 3};
}

EXPORT int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  Record record;
  if (read(context->async_fd, &record, sizeof(record)) != sizeof(record)) return -1;
  event->event_type = static_cast<ibv_event_type>(record.event);
  event->element.port_num = static_cast<int>(record.element);
  return 0;
}

EXPORT void ibv_ack_async_event(ibv_async_event* /*event*/) {}

// NOLINTEND(bugprone-invalid-enum-default-initialization,bugprone-throwing-static-initialization,clang-analyzer-cplusplus.NewDeleteLeaks,cppcoreguidelines-pro-type-member-init)
