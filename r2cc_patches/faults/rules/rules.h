// What a rule file says: which TCP connections and RDMA queue pairs of this process are broken, and how
// (docs/internals/fault-shim.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "faults/rules/verbs_rule.h"
#include "faults/rules/words.h"

namespace r2cc::faults {

/// Both ends of a TCP connection, as its own process sees it.
struct Ends {
  Ip local{}, peer{};
  uint16_t localPort = 0, peerPort = 0;
};

enum class Action { Reset, Silent, Slow, ShortReads };

struct Rule {
  std::string nic;  // the address of the NIC as the file has it: answers name it
  Ip local{};
  std::optional<Ip> peer;
  uint16_t lowPort = 0, highPort = 65535;  // either end's port lies between
  Action action = Action::Reset;
  uint64_t times = 0;          // at most so many connections of a process; 0: all
  uint64_t rateBytesPerS = 0;  // of each connection, Slow alone
  uint64_t mostBytes = 0;      // of one call, ShortReads alone

  bool matches(const Ends& ends) const;
};

struct Rules {
  std::vector<Rule> sockets;
  std::vector<VerbsRule> verbs;
};

constexpr size_t kMostRules = 64;
constexpr size_t kMostFileBytes = 16384;

/// All rules of a file or none. Throws BadRules.
Rules parse(const std::string& text);

}  // namespace r2cc::faults
