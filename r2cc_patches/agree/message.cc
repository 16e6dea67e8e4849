#include "message.h"

#include "base/bytes.h"

namespace r2cc::agree {

std::vector<uint8_t> encode(const Message& message) {
  std::vector<uint8_t> bytes;
  Writer w(bytes);
  w(message);
  bytes.insert(bytes.end(), message.text.begin(), message.text.end());
  return bytes;
}

std::optional<Message> decode(const uint8_t* data, size_t size) {
  Message message;
  Reader r(data, size);
  r(message);
  if (!r.ok() || static_cast<uint8_t>(message.type) >= kTypes) return std::nullopt;
  message.text.assign(data + (size - r.left()), data + size);
  return message;
}

}  // namespace r2cc::agree
