#include "wire/keys.h"

#include <vector>

#include "base/bytes.h"

namespace r2cc {
namespace {

// No datagram begins like this, so that no tag on the wire is ever a key.
constexpr uint32_t kDerive = 0x79656b72;
enum class Purpose : uint8_t { Pair = 1, Lane = 2 };

Tag derive(const Key& key, Purpose purpose, uint64_t a, uint64_t b) {
  std::vector<uint8_t> text;
  Writer w(text);
  w(kDerive), w(purpose), w(a), w(b);
  return sipTag(key, text.data(), text.size());
}

}  // namespace

Key pairKey(const Key& listener, uint64_t connector, uint64_t listenerId) {
  return derive(listener, Purpose::Pair, connector, listenerId);
}

uint64_t laneSecret(const Key& pair, uint64_t connection, uint32_t lane) {
  const Tag tag = derive(pair, Purpose::Lane, connection, lane);
  uint64_t secret = 0;
  Reader r(tag.data(), sizeof(secret));
  r(secret);
  return secret;
}

}  // namespace r2cc
