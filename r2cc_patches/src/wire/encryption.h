// What R2CC_TLS=1 makes of keys: who seals, or encrypts, the datagrams of a pair of processes, and the key of each of
// its lanes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/siphash.h"
#include "tls/crypto.h"
#include "tls/job_secret.h"

namespace r2cc {

/// The key of one pair of processes: of its datagrams, and of all that is made from it.
class PairKey {
 public:
  PairKey() = default;
  /// Datagrams are sealed with it, and in the clear.
  PairKey(const Key& key) : key_(key) {}  // NOLINT(google-explicit-constructor): it is that key
  /// Datagrams are encrypted. `key` and the numbers: see pairKey(); `with` may be null: they are not.
  static PairKey of(const Key& listener, uint64_t connector, uint64_t listenerId, const Encryption* with);

  const Key& key() const { return key_; }
  bool encrypts() const { return encrypted_ != nullptr; }
  /// What goes from the listening end, or from the connecting one; only where encrypts().
  const Sealer& sealer(bool fromListener) const {
    return fromListener ? encrypted_->fromListener : encrypted_->fromConnector;
  }
  /// Of an encrypted lane, at both ends; only where encrypts().
  TlsKey lane(uint64_t connection, uint32_t lane) const;

 private:
  /// Made of one HMAC: a datagram of somebody unknown costs no more before it is found genuine or not.
  struct Encrypted {
    Encrypted(const TlsKey& datagrams, const TlsKey& secret, std::vector<uint8_t> pair);
    Sealer fromConnector, fromListener;
    TlsKey secret;
    std::vector<uint8_t> pair;  // which one it is
  };
  Key key_{};
  std::shared_ptr<const Encrypted> encrypted_;
};

}  // namespace r2cc
