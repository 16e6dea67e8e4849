// How the end that was to connect tells the one that listens why it does not: it would wait without end.
//
//   magic, 0, from, to, listen, text | SipHash tag of 16 bytes over everything before it
//
// Every version from 10 on writes and reads just this. It begins as a Datagram does, so that one filter passes both.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "wire/handle.h"

namespace r2cc {

constexpr uint8_t kAnyVersion = 0;

struct Refusal {
  static constexpr size_t kMostText = 250;  // bytes
  uint64_t from = 0, to = 0;                // process ids
  uint64_t listen = 0;
  std::vector<uint8_t> text;
  auto fields() { return inOrder(from, to, listen, atMost(kMostText, text)); }

  /// Sealed with what the handle says; `from` is any number that tells this process from others.
  static std::vector<uint8_t> sealed(const ConnectHandle& handle, uint64_t from, const std::string& why);
  /// Nothing in it is to be trusted before it is genuine.
  static std::optional<Refusal> open(const uint8_t* data, size_t size);
  /// `own`: the key that this process puts into its handles.
  static bool genuine(const uint8_t* data, size_t size, const Refusal& read, const Key& own);
  /// In printable characters.
  std::string readable() const;
};

/// Sends it from a socket of its own, some copies at once: for a process whose net could not start.
void refuseOnce(const ConnectHandle& handle, const std::string& why);

}  // namespace r2cc
