// What a rule file says: which TCP connections of this process are broken, and how (docs/internals/fault-shim.md).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace r2cc::faults {

/// An address of either family; of IPv4 as IPv6 writes it.
using Ip = std::array<uint8_t, 16>;

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

/// A file that is not one of ours: `what` says which line, and why.
class BadRules : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

constexpr size_t kMostRules = 64;
constexpr size_t kMostFileBytes = 16384;

/// All rules of a file or none. Throws BadRules.
std::vector<Rule> parse(const std::string& text);

/// Throws BadRules for what is no address.
Ip ipOf(const std::string& text);

}  // namespace r2cc::faults
