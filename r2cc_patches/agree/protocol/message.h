// What the ranks tell each other. One shape for all: which fields mean something depends on the type.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agree/history.h"
#include "base/bytes.h"

namespace r2cc::agree {

enum class Type : uint8_t {
  Ping = 0,  // nothing but an acknowledgement; never repeated
  // rank 0 -> all
  Offer,     // round, text: the proposal. Get ready for it.
  Prepare,   // round, group: promise to enter nothing after it; number: the time to leave ahead, ns
  Commit,    // round, group: the first with the decision; number: its epoch
  Withdraw,  // round, text: why, ok: a user must mend it. As if it had never been offered
  Left,      // number: a rank that is gone in good order, text: how; there will be no further switch
  Broken,    // of earlier builds alone. number: a rank that is gone, text: its address, a line's end, the cause
  // all -> rank 0
  Report,    // text
  Ready,     // round, ok, text: why not, or what must be alike; number: its hash
  Promised,  // round, group: the last it enters; number: what it entered; marks
  Leave,     // ok: in good order (0: aborted)
};
constexpr uint8_t kTypes = static_cast<uint8_t>(Type::Leave) + 1;

struct Message {
  Type type = Type::Ping;
  uint8_t ok = 0;
  uint64_t round = 0, group = 0, number = 0;
  std::vector<Mark> marks;
  std::string text;  // the rest of the message

  auto fields() { return inOrder(type, ok, round, group, number, atMost(History::kMarks, marks)); }
};

// With the most of marks, the longest text, and room.
constexpr size_t kMaxUp = 8 << 10;     // bytes of a message to rank 0
constexpr size_t kMaxDown = 66 << 10;  // bytes of a message from rank 0

inline std::vector<uint8_t> encode(const Message& message) {
  std::vector<uint8_t> bytes;
  Writer w(bytes);
  w(message);
  bytes.insert(bytes.end(), message.text.begin(), message.text.end());
  return bytes;
}
inline std::optional<Message> decode(const uint8_t* data, size_t size) {
  Message message;
  Reader r(data, size);
  r(message);
  if (!r.ok() || static_cast<uint8_t>(message.type) >= kTypes) return std::nullopt;
  message.text.assign(data + (size - r.left()), data + size);
  return message;
}

}  // namespace r2cc::agree
