#include "tls/tls_socket.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <stdexcept>

namespace r2cc {
namespace {

// The first of TLS 1.3's own; an external key goes with SHA-256 (RFC 8446, 4.2.11).
constexpr const char* kSuites = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
constexpr const char* kIdentity = "r2cc";  // says nothing: each socket knows its one key
constexpr size_t kAtOnce = 64 << 10;       // bytes for one call of the kernel's: four records
constexpr size_t kReadBuffer = 80 << 10;   // as much, with what records add

/// Of no use where the process ends.
const OpenSsl& loaded() {
  static const OpenSsl none;
  const OpenSsl::Use use;
  return use ? OpenSsl::get() : none;
}

TlsSocket* ownerOf(const OpenSsl& openSsl, const Ssl* ssl) {
  return static_cast<TlsSocket*>(openSsl.SSL_get_ex_data(ssl, 0));
}

}  // namespace

/// What OpenSSL calls. Keys are asked for by the socket that is being made, bytes by its BIO.
struct TlsSocket::Callbacks {
  static unsigned give(const TlsSocket& socket, unsigned char* key, unsigned size) {
    if (size < socket.key_.size()) return 0;
    memcpy(key, socket.key_.data(), socket.key_.size());
    return static_cast<unsigned>(socket.key_.size());
  }
  static unsigned clientKey(Ssl* ssl, const char*, char* identity, unsigned identitySize, unsigned char* key,
                            unsigned keySize) {
    if (identitySize <= strlen(kIdentity)) return 0;
    memcpy(identity, kIdentity, strlen(kIdentity) + 1);
    return give(*ownerOf(OpenSsl::get(), ssl), key, keySize);
  }
  static unsigned serverKey(Ssl* ssl, const char* identity, unsigned char* key, unsigned keySize) {
    if (identity == nullptr || strcmp(identity, kIdentity) != 0) return 0;
    return give(*ownerOf(OpenSsl::get(), ssl), key, keySize);
  }
  static TlsSocket& of(Bio* bio) { return *static_cast<TlsSocket*>(OpenSsl::get().BIO_get_data(bio)); }
  static int write(Bio* bio, const char* data, int size) {
    std::vector<uint8_t>& out = of(bio).out_;
    out.insert(out.end(), data, data + size);
    return size;
  }
  static int read(Bio* bio, char* data, int size) {
    OpenSsl::get().BIO_clear_flags(bio, OpenSsl::kRetryRead);
    const ssize_t got = ::recv(of(bio).fd_, data, static_cast<size_t>(size), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) OpenSsl::get().BIO_set_flags(bio, OpenSsl::kRetryRead);
    return static_cast<int>(got);
  }
  static long control(Bio*, int command, long, void*) { return command == OpenSsl::kFlush ? 1 : 0; }

  static SslContext* newContext(const OpenSsl& o, bool connects) {
    SslContext* made = o.SSL_CTX_new_ex(o.context, nullptr, connects ? o.TLS_client_method() : o.TLS_server_method());
    if (made == nullptr || o.SSL_CTX_ctrl(made, OpenSsl::kSetMinimum, OpenSsl::kTls13, nullptr) != 1 ||
        o.SSL_CTX_set_ciphersuites(made, kSuites) != 1 || o.SSL_CTX_set_num_tickets(made, 0) != 1) {
      throw std::runtime_error("R2CC_TLS=1: OpenSSL has no TLS 1.3 with AES-128-GCM: " + o.lastError());
    }
    (void)o.SSL_CTX_ctrl(made, OpenSsl::kSetReadAhead, 1, nullptr);
    o.SSL_CTX_set_default_read_buffer_len(made, kReadBuffer);
    // Who accepts has no certificate to show, so without the key there is no hand-shake. Who accepts and does not know
    // the key could show one: none is ever believed.
    if (connects) o.SSL_CTX_set_verify(made, OpenSsl::kVerifyPeer, nullptr);
    if (connects) o.SSL_CTX_set_psk_client_callback(made, clientKey);
    if (!connects) o.SSL_CTX_set_psk_server_callback(made, serverKey);
    return made;
  }
  static SslContext* context(bool connects) {
    static SslContext* const client = newContext(OpenSsl::get(), true);
    static SslContext* const server = newContext(OpenSsl::get(), false);
    return connects ? client : server;
  }
  static BioMethod* newMethod(const OpenSsl& o) {
    BioMethod* made = o.BIO_meth_new(o.BIO_get_new_index(), "r2cc");
    if (made == nullptr || o.BIO_meth_set_write(made, write) != 1 || o.BIO_meth_set_read(made, read) != 1 ||
        o.BIO_meth_set_ctrl(made, control) != 1) {
      throw std::runtime_error("R2CC_TLS=1: OpenSSL is out of memory");
    }
    return made;
  }
  static const BioMethod* method() {
    static BioMethod* const made = newMethod(OpenSsl::get());
    return made;
  }
};

void TlsSocket::prepare() {
  const OpenSsl::Use use;
  if (!use) return;
  (void)Callbacks::context(true);
  (void)Callbacks::method();
}

TlsSocket::TlsSocket(int fd, const TlsKey& key, bool connects, uint64_t bytesAKey)
    : openSsl_(loaded()), fd_(fd), key_(key), bytesAKey_(bytesAKey) {
  const OpenSsl::Use use;
  if (!use || openSsl_.SSL_new == nullptr) return;
  ssl_ = openSsl_.SSL_new(Callbacks::context(connects));
  Bio* bio = ssl_ == nullptr ? nullptr : openSsl_.BIO_new(Callbacks::method());
  if (bio == nullptr || openSsl_.SSL_set_ex_data(ssl_, 0, this) != 1) {
    if (ssl_ != nullptr) openSsl_.SSL_free(ssl_);
    throw std::runtime_error("R2CC_TLS=1: OpenSSL is out of memory");
  }
  openSsl_.BIO_set_data(bio, this);
  openSsl_.BIO_set_init(bio, 1);
  openSsl_.SSL_set_bio(ssl_, bio, bio);
  connects ? openSsl_.SSL_set_connect_state(ssl_) : openSsl_.SSL_set_accept_state(ssl_);
}

TlsSocket::~TlsSocket() {
  if (const OpenSsl::Use use; use) openSsl_.SSL_free(ssl_);
}

void TlsSocket::fail(const std::string& what) {
  broken_ = true;
  if (problem_.empty()) problem_ = what;
}

bool TlsSocket::flush() {
  while (!broken_ && outAt_ < out_.size()) {
    const ssize_t sent = ::send(fd_, out_.data() + outAt_, out_.size() - outAt_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      outAt_ += static_cast<size_t>(sent);
    } else if (errno == EAGAIN || errno == EINTR) {
      return false;
    } else {
      fail(strerror(errno));
    }
  }
  out_.clear();
  outAt_ = 0;
  return !broken_;
}

TlsSocket::Handshake TlsSocket::handshake() {
  const OpenSsl::Use use;
  if (!use) return Handshake::Working;
  if (!flush()) return broken_ ? Handshake::Failed : Handshake::Working;
  if (shaken_) return Handshake::Done;
  openSsl_.ERR_clear_error();
  const int result = openSsl_.SSL_do_handshake(ssl_);
  const bool waits = result != 1 && openSsl_.SSL_get_error(ssl_, result) == OpenSsl::kWantRead;
  const std::string said = result == 1 || waits ? "" : openSsl_.lastError();
  const bool flushed = flush();  // also what tells the other end that it failed
  if (result == 1 && openSsl_.SSL_session_reused(ssl_) != 1) fail("the other end did not use the key");
  if (result != 1 && !waits) fail(said.empty() ? "the other end closed it" : said);
  if (broken_) return Handshake::Failed;
  shaken_ = result == 1;
  return shaken_ && flushed ? Handshake::Done : Handshake::Working;
}

ssize_t TlsSocket::send(const void* data, size_t size) {
  const OpenSsl::Use use;
  if (!use) return 0;
  if (!flush()) return broken_ ? -1 : 0;
  if (owed_ > 0) {
    const size_t moved = owed_;
    owed_ = 0;
    return static_cast<ssize_t>(moved);
  }
  const size_t some = std::min(size, kAtOnce);
  underKey_ += some;
  openSsl_.ERR_clear_error();
  const bool fresh = underKey_ > bytesAKey_;
  if (fresh) underKey_ = some;
  if ((fresh && openSsl_.SSL_key_update(ssl_, OpenSsl::kUpdateOurs) != 1) ||
      openSsl_.SSL_write(ssl_, data, static_cast<int>(some)) != static_cast<int>(some)) {
    return fail(openSsl_.lastError()), -1;
  }
  if (flush()) return static_cast<ssize_t>(some);
  owed_ = some;
  return broken_ ? -1 : 0;
}

ssize_t TlsSocket::recv(void* data, size_t size) {
  const OpenSsl::Use use;
  if (broken_ || !use) return broken_ ? -1 : 0;
  openSsl_.ERR_clear_error();
  const int got = openSsl_.SSL_read(ssl_, data, static_cast<int>(std::min<size_t>(size, INT_MAX)));
  if (got > 0) return got;
  if (openSsl_.SSL_get_error(ssl_, got) == OpenSsl::kWantRead) return 0;
  const std::string said = openSsl_.lastError();
  return fail(said.empty() ? "the other end closed it" : said), -1;
}

}  // namespace r2cc
