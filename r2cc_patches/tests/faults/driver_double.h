// An RDMA driver that completes what the test says, with a device on it.
#pragma once

#include <arpa/inet.h>

#include <cstring>
#include <deque>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "faults/verbs/device.h"

namespace r2cc::faults {

constexpr uint32_t kQp = 17, kOtherQp = 18;

class DriverDouble {
 public:
  DriverDouble() {
    current() = this;
    context.device = nullptr;
    cq.context = &context;
    for (ibv_qp* qp : {&first, &second}) qp->context = &context;
    first.qp_num = kQp;
    second.qp_num = kOtherQp;
    connect(&first, "10.2.0.1");
    connect(&second, "10.2.0.3");
  }
  DriverDouble(const DriverDouble&) = delete;
  DriverDouble& operator=(const DriverDouble&) = delete;
  ~DriverDouble() { current() = nullptr; }

  void connect(ibv_qp* qp, const char* peer) {
    ibv_qp_attr attr{};  // NOLINT(bugprone-invalid-enum-default-initialization): the mask says what counts
    attr.qp_state = IBV_QPS_RTR;
    attr.ah_attr.is_global = 1;
    const Ip ip = ipOf(peer);
    std::memcpy(attr.ah_attr.grh.dgid.raw, ip.data(), ip.size());
    device.modified(qp, attr, IBV_QP_STATE | IBV_QP_AV);
  }

  /// In force from now on, all others over; it is the last word.
  std::shared_ptr<ActiveRule> rule(const std::string& words) {
    std::istringstream in("rxe1 " + words);
    end();
    inForce = {std::make_shared<ActiveRule>(verbsRuleOf(in))};
    device.setRules(inForce);
    return inForce.front();
  }
  void end() {
    for (const auto& one : inForce) one->over = true;
    device.setRules({});
  }

  void completes(uint64_t wrId, ibv_wc_opcode opcode = IBV_WC_RDMA_WRITE, uint32_t qp = kQp,
                 ibv_wc_status status = IBV_WC_SUCCESS) {
    ibv_wc one{};
    one.wr_id = wrId;
    one.opcode = opcode;
    one.qp_num = qp;
    one.status = status;
    done.push_back(one);
  }

  std::vector<ibv_wc> poll(int room = 8) {
    std::vector<ibv_wc> out(static_cast<size_t>(room));
    const int got = device.active() ? device.poll(&cq, room, out.data()) : pollCq(&cq, room, out.data());
    out.resize(static_cast<size_t>(got));
    return out;
  }

  /// Of all that a poll hands out, `ID` of what is well and `ID:STATUS` of what is not.
  std::string polled(int room = 8) {
    std::string said;
    for (const ibv_wc& one : poll(room)) {
      if (!said.empty()) said += ' ';
      said += std::to_string(one.wr_id);
      if (one.status != IBV_WC_SUCCESS) said += ":" + std::to_string(one.status);
    }
    return said;
  }

  static DriverDouble*& current() {
    static thread_local DriverDouble* here = nullptr;
    return here;
  }
  static int pollCq(ibv_cq* /*cq*/, int room, ibv_wc* out) {
    std::deque<ibv_wc>& done = current()->done;
    int given = 0;
    for (; given < room && !done.empty(); done.pop_front()) out[given++] = done.front();
    return given;
  }
  static int modifyQp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
    if (mask == IBV_QP_STATE && attr->qp_state == IBV_QPS_ERR) current()->broken.push_back(qp->qp_num);
    return 0;
  }

  Device device{"rxe1", {pollCq, nullptr, nullptr, modifyQp}, {}};
  // NOLINTBEGIN(bugprone-invalid-enum-default-initialization): the library's structures, all zero as it makes them
  ibv_context context{};
  ibv_cq cq{};
  ibv_qp first{}, second{};
  // NOLINTEND(bugprone-invalid-enum-default-initialization)
  std::deque<ibv_wc> done;
  std::vector<uint32_t> broken;  // numbers of queue pairs that were moved to the error state
  ActiveRules inForce;
};

}  // namespace r2cc::faults
