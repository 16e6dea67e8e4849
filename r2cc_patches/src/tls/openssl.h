// What we use of OpenSSL 3, found when R2CC_TLS=1 asks for it and not before: the library needs none to be loaded or
// built. Functions are called by their own names, and are described in OpenSSL's manual pages, section 3. Only what has
// been stable through OpenSSL 3 is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace r2cc {

/// OpenSSL's own structures, which nobody looks into.
struct Ssl;
struct SslContext;
struct SslMethod;
struct Bio;
struct BioMethod;
struct LibraryContext;
struct Cipher;
struct CipherContext;

struct OpenSsl {
  // The numbers of OpenSSL's headers; tests/tls compares them where those are installed.
  static constexpr uint64_t kNoAtExit = 0x00080000;  // OPENSSL_INIT_NO_ATEXIT
  static constexpr int kTls13 = 0x0304;              // TLS1_3_VERSION
  static constexpr int kSetMinimum = 123;            // SSL_CTRL_SET_MIN_PROTO_VERSION
  static constexpr int kSetReadAhead = 41;           // SSL_CTRL_SET_READ_AHEAD
  static constexpr int kVerifyPeer = 1;              // SSL_VERIFY_PEER
  static constexpr int kWantRead = 2;                // SSL_ERROR_WANT_READ
  static constexpr int kUpdateOurs = 0;              // SSL_KEY_UPDATE_NOT_REQUESTED
  static constexpr int kFlush = 11;                  // BIO_CTRL_FLUSH
  static constexpr int kRetryRead = 0x09;            // BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY
  static constexpr int kGetTag = 0x10;               // EVP_CTRL_AEAD_GET_TAG
  static constexpr int kSetTag = 0x11;               // EVP_CTRL_AEAD_SET_TAG
  static constexpr unsigned kMajor = 3;

  using ClientKey = unsigned(Ssl*, const char* hint, char* identity, unsigned identitySize, unsigned char* key,
                             unsigned keySize);
  using ServerKey = unsigned(Ssl*, const char* identity, unsigned char* key, unsigned keySize);

  unsigned (*OPENSSL_version_major)() = nullptr;
  int (*OPENSSL_init_ssl)(uint64_t, const void*) = nullptr;
  LibraryContext* (*OSSL_LIB_CTX_new)() = nullptr;

  const SslMethod* (*TLS_client_method)() = nullptr;
  const SslMethod* (*TLS_server_method)() = nullptr;
  SslContext* (*SSL_CTX_new_ex)(LibraryContext*, const char*, const SslMethod*) = nullptr;
  long (*SSL_CTX_ctrl)(SslContext*, int, long, void*) = nullptr;
  int (*SSL_CTX_set_ciphersuites)(SslContext*, const char*) = nullptr;
  int (*SSL_CTX_set_num_tickets)(SslContext*, size_t) = nullptr;
  void (*SSL_CTX_set_verify)(SslContext*, int, int (*)(int, void*)) = nullptr;
  void (*SSL_CTX_set_default_read_buffer_len)(SslContext*, size_t) = nullptr;
  void (*SSL_CTX_set_psk_client_callback)(SslContext*, ClientKey*) = nullptr;
  void (*SSL_CTX_set_psk_server_callback)(SslContext*, ServerKey*) = nullptr;

  Ssl* (*SSL_new)(SslContext*) = nullptr;
  void (*SSL_free)(Ssl*) = nullptr;
  void (*SSL_set_bio)(Ssl*, Bio*, Bio*) = nullptr;
  int (*SSL_set_ex_data)(Ssl*, int, void*) = nullptr;
  void* (*SSL_get_ex_data)(const Ssl*, int) = nullptr;
  void (*SSL_set_connect_state)(Ssl*) = nullptr;
  void (*SSL_set_accept_state)(Ssl*) = nullptr;
  int (*SSL_do_handshake)(Ssl*) = nullptr;
  int (*SSL_session_reused)(const Ssl*) = nullptr;
  int (*SSL_read)(Ssl*, void*, int) = nullptr;
  int (*SSL_write)(Ssl*, const void*, int) = nullptr;
  int (*SSL_get_error)(const Ssl*, int) = nullptr;
  int (*SSL_key_update)(Ssl*, int) = nullptr;

  int (*BIO_get_new_index)() = nullptr;
  BioMethod* (*BIO_meth_new)(int, const char*) = nullptr;
  int (*BIO_meth_set_write)(BioMethod*, int (*)(Bio*, const char*, int)) = nullptr;
  int (*BIO_meth_set_read)(BioMethod*, int (*)(Bio*, char*, int)) = nullptr;
  int (*BIO_meth_set_ctrl)(BioMethod*, long (*)(Bio*, int, long, void*)) = nullptr;
  Bio* (*BIO_new)(const BioMethod*) = nullptr;
  void (*BIO_set_data)(Bio*, void*) = nullptr;
  void* (*BIO_get_data)(Bio*) = nullptr;
  void (*BIO_set_init)(Bio*, int) = nullptr;
  void (*BIO_set_flags)(Bio*, int) = nullptr;
  void (*BIO_clear_flags)(Bio*, int) = nullptr;

  void (*ERR_clear_error)() = nullptr;
  unsigned long (*ERR_peek_last_error)() = nullptr;
  void (*ERR_error_string_n)(unsigned long, char*, size_t) = nullptr;

  Cipher* (*EVP_CIPHER_fetch)(LibraryContext*, const char*, const char*) = nullptr;
  CipherContext* (*EVP_CIPHER_CTX_new)() = nullptr;
  void (*EVP_CIPHER_CTX_free)(CipherContext*) = nullptr;
  int (*EVP_CIPHER_CTX_ctrl)(CipherContext*, int, int, void*) = nullptr;
  int (*EVP_CipherInit_ex)(CipherContext*, const Cipher*, void*, const unsigned char*, const unsigned char*,
                           int) = nullptr;
  int (*EVP_CipherUpdate)(CipherContext*, unsigned char*, int*, const unsigned char*, int) = nullptr;
  int (*EVP_CipherFinal_ex)(CipherContext*, unsigned char*, int*) = nullptr;
  unsigned char* (*EVP_Q_mac)(LibraryContext*, const char*, const char*, const char*, const void*, const void*, size_t,
                              const unsigned char*, size_t, unsigned char*, size_t, size_t*) = nullptr;

  // Made once, never freed: threads of ours and of NCCL's may outlive main.
  LibraryContext* context = nullptr;
  Cipher* aes128Gcm = nullptr;

  /// Finds and prepares the library; throws std::runtime_error, with what to do, where it is not there or is too old.
  static OpenSsl load(const char* library = "libssl.so.3");
  /// The process's one, for who holds a Use. The first call may throw as load() does, and so does each after it.
  static const OpenSsl& get();
  /// What OpenSSL last said on this thread, for the log; empty: nothing.
  std::string lastError() const;

  /// To be held while OpenSSL is called. False once the process ends: another user of the library may have asked for it
  /// to be torn down then, and threads of ours go on. What is called then does nothing.
  class Use {
   public:
    Use();
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    explicit operator bool() const { return allowed_; }

   private:
    bool allowed_;
  };
};

}  // namespace r2cc
