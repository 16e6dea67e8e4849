// What R2CC_TLS=1 makes of keys: who seals, or encrypts, the datagrams of a pair of processes, and the key of each of
// its lanes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/siphash.h"
#include "tls/crypto.h"

namespace r2cc {

/// What a process encrypts with, beside the keys that handles bring.
struct Encryption {
  TlsKey secret{};     // made of R2CC_TLS_SECRET_FILE; zeros: there is none
  uint32_t check = 0;  // tells secrets apart and says nothing of them; 0: there is none
};

/// Reads the file and finds OpenSSL. `wanted`, `secretFile`: what R2CC_TLS and R2CC_TLS_SECRET_FILE are. Null: nothing
/// is to be encrypted. Throws std::invalid_argument, with what to do: nothing may go on unencrypted then.
std::shared_ptr<const Encryption> encryptionOf(const std::string& wanted, const std::string& secretFile);

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
