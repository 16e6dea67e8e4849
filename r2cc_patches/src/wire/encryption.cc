#include "wire/encryption.h"

#include "base/bytes.h"
#include "wire/keys.h"

namespace r2cc {
namespace {

std::vector<uint8_t> numbers(uint64_t a, uint64_t b) {
  std::vector<uint8_t> out;
  Writer w(out);
  w(a), w(b);
  return out;
}

}  // namespace

PairKey::Encrypted::Encrypted(const TlsKey& datagrams, const TlsKey& secret, std::vector<uint8_t> pair)
    : fromConnector(halfOf(datagrams, 0)), fromListener(halfOf(datagrams, 1)), secret(secret), pair(std::move(pair)) {}

PairKey PairKey::of(const Key& listener, uint64_t connector, uint64_t listenerId, const Encryption* with) {
  PairKey out(pairKey(listener, connector, listenerId));
  if (with == nullptr) return out;
  std::vector<uint8_t> pair(listener.begin(), listener.end());
  const std::vector<uint8_t> ids = numbers(connector, listenerId);
  pair.insert(pair.end(), ids.begin(), ids.end());
  const TlsKey datagrams = derivedKey(with->secret, "r2cc datagrams", pair);
  out.encrypted_ = std::make_shared<Encrypted>(datagrams, with->secret, std::move(pair));
  return out;
}

TlsKey PairKey::lane(uint64_t connection, uint32_t lane) const {
  const TlsKey lanes = derivedKey(encrypted_->secret, "r2cc lanes", encrypted_->pair);
  return derivedKey(lanes, "r2cc lane", numbers(connection, lane));
}

}  // namespace r2cc
