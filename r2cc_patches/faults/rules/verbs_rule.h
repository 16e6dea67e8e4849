// What a rule says of an RDMA device: which of its queue pairs are broken, which calls fail, which events come.
#pragma once

#include <cstdint>
#include <istream>
#include <optional>
#include <string>

#include "faults/rules/words.h"

namespace r2cc::faults {

enum class VerbsAction { Error, Lost, Late, Duplicate, Slow, Fail, Event };
enum class VerbsCall { CreateQp, ModifyQp, RegMr, PostSend, PostRecv };

/// What is known of a completion, or of the queue pair that a call is for.
struct VerbsSubject {
  uint32_t qp = 0;
  std::optional<Ip> peer;     // nothing: it has none yet, or no address
  std::optional<int> opcode;  // of ibv_wc_opcode; nothing: no completion, or one that failed
};

struct VerbsRule {
  std::string device;
  VerbsAction action = VerbsAction::Error;
  std::optional<uint32_t> qp;
  std::optional<Ip> peer;
  std::optional<int> opcode;
  uint64_t skip = 0;   // so many that match are left alone first
  uint64_t times = 0;  // at most so many after them in a process; 0: all

  int status = 0;                 // Error: of ibv_wc_status
  uint64_t delayNs = 0;           // Late, Slow
  uint64_t perS = 0;              // Slow: completions of a queue pair in a second; 0: any
  std::optional<VerbsCall> call;  // Fail
  int error = 0;                  // Fail: of errno
  int event = -1;                 // Event: of ibv_event_type
  std::optional<int> after;       // Event: what comes when the rule is taken away
  uint8_t port = 1;               // Event

  bool matches(const VerbsSubject& subject) const;
};

/// All of a line but its first word. Throws BadRules.
VerbsRule verbsRuleOf(std::istream& words);

}  // namespace r2cc::faults
