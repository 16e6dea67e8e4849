// Keys from keys, and short texts that are encrypted and sealed: what is not sent over a TlsSocket.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "tls/tls_key.h"

namespace r2cc {

/// HMAC-SHA256 of a word, which says what for, and numbers.
TlsKey derivedKey(const TlsKey& key, const char* word, const std::vector<uint8_t>& text);

/// AES-128-GCM with a key and a number that is never used twice under it. All three throw std::runtime_error without
/// memory, and where OpenSsl::get() does.
class Sealer {
 public:
  static constexpr size_t kTagBytes = 16;
  using Key = std::array<uint8_t, 16>;
  explicit Sealer(const Key& key) : key_(key) {}
  /// Encrypts all behind the first `clear` bytes, and appends a tag over everything.
  void seal(uint64_t number, size_t clear, std::vector<uint8_t>& bytes) const;
  /// What lies between the clear bytes and the tag, into `plain`; false, and nothing to be read in it, where it is not
  /// genuine.
  bool open(uint64_t number, size_t clear, const uint8_t* data, size_t size, std::vector<uint8_t>& plain) const;

 private:
  Key key_;
};

/// A key of HMAC-SHA256 is as long as two of the cipher's: which of them, 0 or 1.
Sealer::Key halfOf(const TlsKey& key, size_t which);

}  // namespace r2cc
