#include "faults/rules/verbs_rule.h"

#include <ibvcore.h>
#include <pthread.h>

#include <map>

namespace r2cc::faults {

namespace {

template <typename Value>
using Names = std::map<std::string, Value>;

constexpr uint64_t kNsPerMs = 1'000'000;
constexpr uint64_t kMostMs = 3'600'000;
constexpr uint64_t kMostErrno = 4095;
constexpr char kDeviceLetters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";

const Names<VerbsAction>& actions() {
  static const auto& names = *new Names<VerbsAction>{
      {"error", VerbsAction::Error},         {"lost", VerbsAction::Lost}, {"late", VerbsAction::Late},
      {"duplicate", VerbsAction::Duplicate}, {"slow", VerbsAction::Slow}, {"fail", VerbsAction::Fail},
      {"event", VerbsAction::Event},
  };
  return names;
}

const Names<int>& statuses() {
  static const auto& names = *new Names<int>{
      {"local_length", IBV_WC_LOC_LEN_ERR},
      {"local_qp_operation", IBV_WC_LOC_QP_OP_ERR},
      {"local_protection", IBV_WC_LOC_PROT_ERR},
      {"flushed", IBV_WC_WR_FLUSH_ERR},
      {"bad_response", IBV_WC_BAD_RESP_ERR},
      {"local_access", IBV_WC_LOC_ACCESS_ERR},
      {"remote_invalid_request", IBV_WC_REM_INV_REQ_ERR},
      {"remote_access", IBV_WC_REM_ACCESS_ERR},
      {"remote_operation", IBV_WC_REM_OP_ERR},
      {"retry_exceeded", IBV_WC_RETRY_EXC_ERR},
      {"rnr_retry_exceeded", IBV_WC_RNR_RETRY_EXC_ERR},
      {"remote_aborted", IBV_WC_REM_ABORT_ERR},
      {"fatal", IBV_WC_FATAL_ERR},
      {"response_timeout", IBV_WC_RESP_TIMEOUT_ERR},
      {"general", IBV_WC_GENERAL_ERR},
  };
  return names;
}

const Names<int>& opcodes() {
  static const auto& names = *new Names<int>{
      {"send", IBV_WC_SEND},
      {"rdma_write", IBV_WC_RDMA_WRITE},
      {"rdma_read", IBV_WC_RDMA_READ},
      {"recv", IBV_WC_RECV},
      {"recv_rdma_with_imm", IBV_WC_RECV_RDMA_WITH_IMM},
  };
  return names;
}

const Names<VerbsCall>& calls() {
  static const auto& names = *new Names<VerbsCall>{
      {"create_qp", VerbsCall::CreateQp}, {"modify_qp", VerbsCall::ModifyQp}, {"reg_mr", VerbsCall::RegMr},
      {"post_send", VerbsCall::PostSend}, {"post_recv", VerbsCall::PostRecv},
  };
  return names;
}

/// Those that belong to a port or to the device: an event of a queue pair would have to be counted by the driver.
const Names<int>& events() {
  static const auto& names = *new Names<int>{
      {"device_fatal", IBV_EVENT_DEVICE_FATAL}, {"port_active", IBV_EVENT_PORT_ACTIVE},
      {"port_err", IBV_EVENT_PORT_ERR},         {"lid_change", IBV_EVENT_LID_CHANGE},
      {"pkey_change", IBV_EVENT_PKEY_CHANGE},   {"sm_change", IBV_EVENT_SM_CHANGE},
      {"gid_change", IBV_EVENT_GID_CHANGE},     {"client_reregister", IBV_EVENT_CLIENT_REREGISTER},
  };
  return names;
}

template <typename Value>
Value named(const Names<Value>& names, const std::string& word, const char* what) {
  const auto found = names.find(word);
  if (found == names.end()) throw BadRules(std::string("there is no ") + what + " of that name");
  return found->second;
}

/// Settings of one action alone. False: it has none of that name.
bool readOwn(const std::string& name, const std::string& value, VerbsRule& rule) {
  const VerbsAction action = rule.action;
  if (name == "status" && action == VerbsAction::Error) {
    rule.status = named(statuses(), value, "status");
  } else if (name == "ms" && (action == VerbsAction::Late || action == VerbsAction::Slow)) {
    rule.delayNs = numberOf(value, 1, kMostMs, "ms") * kNsPerMs;
  } else if (name == "per_s" && action == VerbsAction::Slow) {
    rule.perS = numberOf(value, 1, kMostOf, "per_s");
  } else if (name == "call" && action == VerbsAction::Fail) {
    rule.call = named(calls(), value, "call");
  } else if (name == "errno" && action == VerbsAction::Fail) {
    rule.error = static_cast<int>(numberOf(value, 1, kMostErrno, "errno"));
  } else if (name == "name" && action == VerbsAction::Event) {
    rule.event = named(events(), value, "event");
  } else if (name == "then" && action == VerbsAction::Event) {
    rule.after = named(events(), value, "event");
  } else if (name == "port" && action == VerbsAction::Event) {
    rule.port = static_cast<uint8_t>(numberOf(value, 1, 255, "port"));
  } else {
    return false;
  }
  return true;
}

void readSetting(const std::string& word, VerbsRule& rule) {
  const auto [name, value] = settingOf(word);
  const bool chooses = rule.action != VerbsAction::Event;
  if (readOwn(name, value, rule)) return;
  if (name == "qp" && chooses) {
    rule.qp = static_cast<uint32_t>(numberOf(value, 0, 0xffffff, "qp"));
  } else if (name == "peer" && chooses) {
    rule.peer = ipOf(value);
  } else if (name == "opcode" && chooses && rule.action != VerbsAction::Fail) {
    rule.opcode = named(opcodes(), value, "opcode");
  } else if (name == "skip" && chooses) {
    rule.skip = numberOf(value, 0, kMostOf, "skip");
  } else if (name == "times" && chooses) {
    rule.times = numberOf(value, 0, kMostOf, "times");
  } else {
    throw BadRules("unknown setting");
  }
}

void checkWhole(const VerbsRule& rule) {
  switch (rule.action) {
    case VerbsAction::Error:
      if (rule.status == 0) throw BadRules("error needs status");
      break;
    case VerbsAction::Late:
      if (rule.delayNs == 0) throw BadRules("late needs ms");
      break;
    case VerbsAction::Slow:
      if (rule.delayNs == 0 && rule.perS == 0) throw BadRules("slow needs ms or per_s");
      break;
    case VerbsAction::Fail:
      if (!rule.call || rule.error == 0) throw BadRules("fail needs call and errno");
      break;
    case VerbsAction::Event:
      if (rule.event < 0) throw BadRules("event needs name");
      break;
    case VerbsAction::Lost:
    case VerbsAction::Duplicate:
      break;
  }
}

}  // namespace

bool VerbsRule::matches(const VerbsSubject& subject) const {
  return (!qp || *qp == subject.qp) && (!peer || peer == subject.peer) && (!opcode || opcode == subject.opcode);
}

VerbsRule verbsRuleOf(std::istream& words) {
  VerbsRule rule;
  std::string action, setting;
  words >> rule.device >> action;
  if (rule.device.empty() || rule.device.find_first_not_of(kDeviceLetters) != std::string::npos)
    throw BadRules("no name of a device");
  rule.action = named(actions(), action, "action");
  while (words >> setting) readSetting(setting, rule);
  checkWhole(rule);
  return rule;
}

}  // namespace r2cc::faults
