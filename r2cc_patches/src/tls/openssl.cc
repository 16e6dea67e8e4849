#include "tls/openssl.h"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "base/clock.h"

namespace r2cc {
namespace {

constexpr const char* kNeeds = "R2CC_TLS=1 needs OpenSSL 3, from libssl.so.3: ";
constexpr const char* kInstall =
    ". Install it on every host and in every image (Debian, Ubuntu: libssl3; Red Hat: openssl-libs), or unset R2CC_TLS";

/// Its dependency, libcrypto, is searched too.
class Finder {
 public:
  explicit Finder(const char* library) : library_(dlopen(library, RTLD_NOW | RTLD_LOCAL)) {
    if (library_ != nullptr) return;
    const char* why = dlerror();
    throw std::runtime_error(std::string(kNeeds) + (why == nullptr ? "it cannot be loaded" : why) + kInstall);
  }
  template <class Function>
  void operator()(Function& out, const char* name) const {
    out = reinterpret_cast<Function>(dlsym(library_, name));
    if (out == nullptr) throw std::runtime_error(std::string(kNeeds) + "it has no " + name + kInstall);
  }

 private:
  void* library_;  // for as long as the process lives
};

constexpr int64_t kLastCallNs = msToNs(1000);  // of a call that is under way when the process ends
std::atomic<int> inside{0};
std::atomic<bool> tornDown{false};

/// It runs before what OpenSSL registered before it. So it is registered at the first use, for who ends the process
/// while OpenSSL is being loaded, and again once that has registered what it will.
void atExit() {
  tornDown = true;
  for (const int64_t until = nowNs() + kLastCallNs; inside > 0 && nowNs() < until;) std::this_thread::yield();
}

void findSsl(const Finder& find, OpenSsl& out) {
  find(out.OPENSSL_init_ssl, "OPENSSL_init_ssl");
  find(out.TLS_client_method, "TLS_client_method"), find(out.TLS_server_method, "TLS_server_method");
  find(out.SSL_CTX_new_ex, "SSL_CTX_new_ex"), find(out.SSL_CTX_ctrl, "SSL_CTX_ctrl");
  find(out.SSL_CTX_set_ciphersuites, "SSL_CTX_set_ciphersuites");
  find(out.SSL_CTX_set_num_tickets, "SSL_CTX_set_num_tickets");
  find(out.SSL_CTX_set_verify, "SSL_CTX_set_verify");
  find(out.SSL_CTX_set_default_read_buffer_len, "SSL_CTX_set_default_read_buffer_len");
  find(out.SSL_CTX_set_psk_client_callback, "SSL_CTX_set_psk_client_callback");
  find(out.SSL_CTX_set_psk_server_callback, "SSL_CTX_set_psk_server_callback");
  find(out.SSL_new, "SSL_new"), find(out.SSL_free, "SSL_free"), find(out.SSL_set_bio, "SSL_set_bio");
  find(out.SSL_set_ex_data, "SSL_set_ex_data"), find(out.SSL_get_ex_data, "SSL_get_ex_data");
  find(out.SSL_set_connect_state, "SSL_set_connect_state"), find(out.SSL_set_accept_state, "SSL_set_accept_state");
  find(out.SSL_do_handshake, "SSL_do_handshake"), find(out.SSL_session_reused, "SSL_session_reused");
  find(out.SSL_read, "SSL_read"), find(out.SSL_write, "SSL_write"), find(out.SSL_get_error, "SSL_get_error");
  find(out.SSL_key_update, "SSL_key_update");
}

void findCrypto(const Finder& find, OpenSsl& out) {
  find(out.OPENSSL_version_major, "OPENSSL_version_major"), find(out.OSSL_LIB_CTX_new, "OSSL_LIB_CTX_new");
  find(out.BIO_get_new_index, "BIO_get_new_index"), find(out.BIO_meth_new, "BIO_meth_new");
  find(out.BIO_meth_set_write, "BIO_meth_set_write"), find(out.BIO_meth_set_read, "BIO_meth_set_read");
  find(out.BIO_meth_set_ctrl, "BIO_meth_set_ctrl"), find(out.BIO_new, "BIO_new");
  find(out.BIO_set_data, "BIO_set_data"), find(out.BIO_get_data, "BIO_get_data");
  find(out.BIO_set_init, "BIO_set_init"), find(out.BIO_set_flags, "BIO_set_flags");
  find(out.BIO_clear_flags, "BIO_clear_flags");
  find(out.ERR_clear_error, "ERR_clear_error"), find(out.ERR_peek_last_error, "ERR_peek_last_error");
  find(out.ERR_error_string_n, "ERR_error_string_n");
  find(out.EVP_CIPHER_fetch, "EVP_CIPHER_fetch"), find(out.EVP_CIPHER_CTX_new, "EVP_CIPHER_CTX_new");
  find(out.EVP_CIPHER_CTX_free, "EVP_CIPHER_CTX_free"), find(out.EVP_CIPHER_CTX_ctrl, "EVP_CIPHER_CTX_ctrl");
  find(out.EVP_CipherInit_ex, "EVP_CipherInit_ex"), find(out.EVP_CipherUpdate, "EVP_CipherUpdate");
  find(out.EVP_CipherFinal_ex, "EVP_CipherFinal_ex"), find(out.EVP_Q_mac, "EVP_Q_mac");
}

}  // namespace

OpenSsl OpenSsl::load(const char* library) {
  const Finder find(library);
  OpenSsl out;
  findCrypto(find, out);
  findSsl(find, out);
  if (out.OPENSSL_version_major() < kMajor) throw std::runtime_error(std::string(kNeeds) + "it is older" + kInstall);
  // What OpenSSL would free at exit may be in use by threads then: it need not, if we are the first who ask. A context
  // of our own is never freed.
  const bool ready = out.OPENSSL_init_ssl(kNoAtExit, nullptr) == 1 && std::atexit(atExit) == 0;
  out.context = ready ? out.OSSL_LIB_CTX_new() : nullptr;
  out.aes128Gcm = out.context != nullptr ? out.EVP_CIPHER_fetch(out.context, "AES-128-GCM", nullptr) : nullptr;
  if (out.aes128Gcm == nullptr)
    throw std::runtime_error(std::string(kNeeds) + "it cannot start: " + out.lastError() + kInstall);
  return out;
}

const OpenSsl& OpenSsl::get() {
  static const OpenSsl& one = *new OpenSsl(load());
  return one;
}

OpenSsl::Use::Use() {
  static const bool registered = std::atexit(atExit) == 0;
  (void)registered;
  inside++;
  allowed_ = !tornDown;
  if (!allowed_) inside--;
}

OpenSsl::Use::~Use() {
  if (allowed_) inside--;
}

std::string OpenSsl::lastError() const {
  const unsigned long code = ERR_peek_last_error();
  if (code == 0) return "";
  std::array<char, 200> text{};
  ERR_error_string_n(code, text.data(), text.size());
  return text.data();
}

}  // namespace r2cc
