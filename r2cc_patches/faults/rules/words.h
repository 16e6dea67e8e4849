// The words of which rules are made.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace r2cc::faults {

/// An address of either family; of IPv4 as IPv6 writes it.
using Ip = std::array<uint8_t, 16>;

/// A file that is not one of ours: `what` says which line, and why.
class BadRules : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

constexpr uint64_t kMostOf = 1'000'000'000'000;

/// Throws BadRules for what is no address.
Ip ipOf(const std::string& text);

/// Throws BadRules, which names `what`, for what is no number of that range.
uint64_t numberOf(const std::string& text, uint64_t least, uint64_t most, const std::string& what);

/// NAME=VALUE as a pair; the value is empty where there is none.
std::pair<std::string, std::string> settingOf(const std::string& word);

}  // namespace r2cc::faults
