// Who may speak, and what is genuine (docs/internals/security.md). Rank 0 draws a key for each communicator and gives
// it to all through the bootstrap; it is never used on the wire itself. Each connection has keys of its own, one a
// direction, which both ends derive from it and from what either drew for this connection.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/siphash.h"
#include "tls/crypto.h"
#include "tls/job_secret.h"

namespace r2cc::agree {

/// The first words of the connecting end.
struct Hello {
  uint32_t magic = 0;
  uint8_t version = 0;
  uint64_t agreement = 0;
  uint32_t rank = 0;
  Key nonce{};
  auto fields() { return inOrder(magic, version, agreement, rank, nonce); }
};

/// The answer.
struct Welcome {
  Key nonce{};
  uint64_t received = 0;  // messages that came from this rank so far
  auto fields() { return inOrder(nonce, received); }
};

constexpr size_t kHelloBytes = 4 + 1 + 8 + 4 + 16 + sizeof(Tag);
constexpr size_t kWelcomeBytes = 16 + 8 + sizeof(Tag);

/// Of the frames of one direction of a connection: they are tagged with `key`, or encrypted by `sealer`.
struct FrameKey {
  FrameKey() = default;
  FrameKey(const Key& key) : key(key) {}  // NOLINT(google-explicit-constructor): it is that key
  explicit FrameKey(const Sealer& sealer) : sealer(sealer) {}
  Key key{};
  std::optional<Sealer> sealer;
};

struct SessionKeys {
  FrameKey up, down;  // to rank 0, from rank 0
};

/// The one rank's key for its greetings.
Key doorKey(const Key& communicator, uint64_t agreement, uint32_t rank);
/// `with` may be null: frames go in the clear.
SessionKeys sessionKeys(const Key& door, const Hello& hello, const Welcome& welcome, const Encryption* with);

std::vector<uint8_t> seal(const Hello& hello, const Key& door);
std::vector<uint8_t> seal(const Hello& hello, const Welcome& welcome, const Key& door);
/// What it claims; nothing in it is to be trusted before genuine() says so.
std::optional<Hello> readHello(const uint8_t* bytes, uint64_t agreement);
bool genuine(const uint8_t* helloBytes, const Key& door);
/// Only a genuine answer to `hello`.
std::optional<Welcome> readWelcome(const uint8_t* bytes, const Hello& hello, const Key& door);

Hello newHello(uint64_t agreement, uint32_t rank);

constexpr size_t kLengthBytes = 4;  // what of a frame always goes in the clear

/// Appends the tag, and encrypts what lies before it and behind the length, where the key does.
void sealFrame(const FrameKey& key, uint64_t number, std::vector<uint8_t>& frame);
/// What lies between length and tag, of a whole frame; null: it is not genuine. What was encrypted lies in `plain`
/// then.
const uint8_t* openFrame(const FrameKey& key, uint64_t number, const uint8_t* frame, size_t size,
                         std::vector<uint8_t>& plain);

/// Of the `number`-th frame of a direction. The number is not sent: what is repeated, left out or put elsewhere is not
/// genuine.
Tag frameTag(const Key& key, uint64_t number, const uint8_t* bytes, size_t size);

}  // namespace r2cc::agree
