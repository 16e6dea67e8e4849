// TLS 1.3 over a TCP socket that somebody else opened and will close: both ends know one key (an external PSK), and
// agree on the session's own by Diffie-Hellman, so that who learns that key later, or listens, can read nothing. There
// are no certificates. Never waits. One thread at a time.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tls/openssl.h"
#include "tls/tls_key.h"

namespace r2cc {

class TlsSocket {
 public:
  enum class Handshake : uint8_t { Working, Done, Failed };
  /// AES-GCM may encrypt 2^24 full records under one key (RFC 8446, 5.5): we take a fresh one after 2^22.
  static constexpr uint64_t kBytesAKey = uint64_t{1} << 36;

  /// `fd` does not block, and outlives this but for its destructor. `connects`: the end that connected, else the one
  /// that accepted. Throws std::runtime_error where OpenSsl::get() does, or without memory.
  TlsSocket(int fd, const TlsKey& key, bool connects, uint64_t bytesAKey = kBytesAKey);
  /// Finds out at once whether such sockets can be made: throws as the constructor does.
  static void prepare();
  ~TlsSocket();
  TlsSocket(const TlsSocket&) = delete;
  TlsSocket& operator=(const TlsSocket&) = delete;

  /// To be called until it is not Working any more; then nothing is sent or received before it is Done.
  Handshake handshake();
  /// How many of these bytes are in the kernel now; 0: ask again, with the same bytes; -1: never again.
  ssize_t send(const void* data, size_t size);
  /// How many bytes came; 0: none yet; -1: the other end has closed it, or something on the way did, or what came was
  /// not genuine.
  ssize_t recv(void* data, size_t size);
  /// Why it is -1 or Failed.
  const std::string& problem() const { return problem_; }

 private:
  struct Callbacks;
  bool flush();
  void fail(const std::string& what);

  const OpenSsl& openSsl_;
  const int fd_;
  const TlsKey key_;
  const uint64_t bytesAKey_;
  Ssl* ssl_ = nullptr;
  std::vector<uint8_t> out_;  // encrypted, and not all in the kernel yet
  size_t outAt_ = 0;
  size_t owed_ = 0;  // what of the user's bytes lies in out_
  uint64_t underKey_ = 0;
  bool shaken_ = false, broken_ = false;
  std::string problem_;
};

/// Those of one comm, by its sockets' index.
struct TlsSockets {
  TlsSockets(const TlsKey& key, size_t count) : key(key), all(count) {}
  const TlsKey key;
  std::vector<std::unique_ptr<TlsSocket>> all;
};

}  // namespace r2cc
