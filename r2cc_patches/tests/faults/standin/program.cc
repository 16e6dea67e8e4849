// A program that uses verbs and knows nothing of R2CC: it obeys the words that it reads, and answers each in a line.
// -DLOADED=1: it finds libibverbs' functions as NCCL does, with their version; =2: without; else it is linked with
// them.
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>

#include <cerrno>
#include <cstring>
#include <iostream>
#include <string>

#include <ibvcore.h>

extern "C" {
ibv_device** ibv_get_device_list(int*);
ibv_context* ibv_open_device(ibv_device*);
int ibv_close_device(ibv_context*);
ibv_pd* ibv_alloc_pd(ibv_context*);
ibv_cq* ibv_create_cq(ibv_context*, int, void*, ibv_comp_channel*, int);
ibv_qp* ibv_create_qp(ibv_pd*, ibv_qp_init_attr*);
int ibv_modify_qp(ibv_qp*, ibv_qp_attr*, int);
ibv_mr* ibv_reg_mr(ibv_pd*, void*, size_t, int);
int ibv_get_async_event(ibv_context*, ibv_async_event*);
}

#ifdef LOADED
template <typename Function>
Function* found(const char* name, Function* /*itsType*/) {
  static void* const library = dlopen("libibverbs.so.1", RTLD_NOW);
#if LOADED == 1
  void* const function = dlvsym(library, name, "IBVERBS_1.1");
#else
  void* const function = dlsym(library, name);
#endif
  if (function == nullptr) throw std::runtime_error(dlerror());
  return reinterpret_cast<Function*>(function);
}
#define VERBS(name) found(#name, static_cast<decltype(name)*>(nullptr))
#else
#define VERBS(name) name
#endif

// NOLINTBEGIN(bugprone-invalid-enum-default-initialization): as verbs are written in C.
namespace {

struct Program {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
  uint64_t posted = 0;

  void open() {
    int count = 0;
    context = VERBS(ibv_open_device)(VERBS(ibv_get_device_list)(&count)[0]);
    pd = VERBS(ibv_alloc_pd)(context);
    cq = VERBS(ibv_create_cq)(context, 8, nullptr, nullptr, 0);
    qp = made();
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.ah_attr.is_global = 1;
    const uint8_t peer[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 2, 0, 1};
    std::memcpy(attr.ah_attr.grh.dgid.raw, peer, sizeof(peer));
    VERBS(ibv_modify_qp)(qp, &attr, IBV_QP_STATE | IBV_QP_AV);
  }
  ibv_qp* made() const {
    ibv_qp_init_attr attr{};
    attr.send_cq = cq;
    return VERBS(ibv_create_qp)(pd, &attr);
  }
  /// Posts one, and polls once.
  std::string write() {
    ibv_send_wr wr{}, *bad = nullptr;
    wr.wr_id = ++posted;
    if (const int error = context->ops.post_send(qp, &wr, &bad)) return std::strerror(error);
    return polled();
  }
  std::string polled() const {
    ibv_wc all[8];
    const int got = context->ops.poll_cq(cq, 8, all);
    std::string said = "polled";
    for (int n = 0; n < got; n++) said += " " + std::to_string(all[n].wr_id) + ":" + std::to_string(all[n].status);
    return said;
  }
  std::string event() const {
    pollfd asked = {context->async_fd, POLLIN, 0};
    ibv_async_event event{};
    if (poll(&asked, 1, 30'000) != 1) return "none";
    if (VERBS(ibv_get_async_event)(context, &event) != 0) return "error";
    return std::to_string(event.event_type) + "/" + std::to_string(event.element.port_num);
  }
  std::string obeys(const std::string& word) {
    if (word == "write") return write();
    if (word == "poll") return polled();
    if (word == "state") return std::to_string(qp->state);
    if (word == "event") return event();
    if (word == "qp") return made() != nullptr ? "made" : std::strerror(errno);
    if (word == "mr") return VERBS(ibv_reg_mr)(pd, this, 8, 0) != nullptr ? "made" : std::strerror(errno);
    if (word == "close") return std::to_string(VERBS(ibv_close_device)(context));
    return "?";
  }
};

}  // namespace

int main() {
  Program program;
  program.open();
  std::cout << "ready" << std::endl;
  for (std::string word; std::cin >> word;) std::cout << program.obeys(word) << std::endl;
  return 0;
}

// NOLINTEND(bugprone-invalid-enum-default-initialization)
