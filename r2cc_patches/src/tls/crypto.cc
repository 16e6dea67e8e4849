#include "tls/crypto.h"

#include <cstring>
#include <memory>
#include <stdexcept>

#include "tls/openssl.h"

namespace r2cc {
namespace {

constexpr size_t kNonceBytes = 12;

/// One a thread: making it takes as long as using it.
class ThreadCipher {
 public:
  ThreadCipher() : context_(OpenSsl::get().EVP_CIPHER_CTX_new()) {
    if (context_ == nullptr) throw std::runtime_error("R2CC_TLS=1: OpenSSL is out of memory");
  }
  ~ThreadCipher() {
    if (const OpenSsl::Use use; use) OpenSsl::get().EVP_CIPHER_CTX_free(context_);
  }
  ThreadCipher(const ThreadCipher&) = delete;
  ThreadCipher& operator=(const ThreadCipher&) = delete;

  bool begin(const Sealer::Key& key, uint64_t number, bool encrypts) {
    std::array<uint8_t, kNonceBytes> nonce{};
    memcpy(nonce.data(), &number, sizeof(number));
    const OpenSsl& o = OpenSsl::get();
    return o.EVP_CipherInit_ex(context_, o.aes128Gcm, nullptr, key.data(), nonce.data(), encrypts ? 1 : 0) == 1;
  }
  /// `out` null: it is sealed, and stays in the clear.
  bool take(uint8_t* out, const uint8_t* data, size_t size) {
    int done = 0;
    return OpenSsl::get().EVP_CipherUpdate(context_, out, &done, data, static_cast<int>(size)) == 1;
  }
  bool tag(int command, uint8_t* bytes) {
    return OpenSsl::get().EVP_CIPHER_CTX_ctrl(context_, command, Sealer::kTagBytes, bytes) == 1;
  }
  bool end() {
    std::array<uint8_t, 16> none{};
    int done = 0;
    return OpenSsl::get().EVP_CipherFinal_ex(context_, none.data(), &done) == 1;
  }

 private:
  CipherContext* context_;
};

ThreadCipher& cipher() {
  thread_local ThreadCipher one;
  return one;
}

}  // namespace

TlsKey derivedKey(const TlsKey& key, const char* word, const std::vector<uint8_t>& text) {
  const OpenSsl::Use use;
  if (!use) return {};
  std::vector<uint8_t> all(word, word + strlen(word) + 1);
  all.insert(all.end(), text.begin(), text.end());
  TlsKey out;
  size_t size = 0;
  const OpenSsl& o = OpenSsl::get();
  const uint8_t* made = o.EVP_Q_mac(o.context, "HMAC", nullptr, "SHA256", nullptr, key.data(), key.size(), all.data(),
                                    all.size(), out.data(), out.size(), &size);
  if (made == nullptr || size != out.size())
    throw std::runtime_error("R2CC_TLS=1: OpenSSL has no HMAC: " + o.lastError());
  return out;
}

Sealer::Key halfOf(const TlsKey& key, size_t which) {
  Sealer::Key out{};
  memcpy(out.data(), key.data() + which * out.size(), out.size());
  return out;
}

void Sealer::seal(uint64_t number, size_t clear, std::vector<uint8_t>& bytes) const {
  const size_t size = bytes.size();
  bytes.resize(size + kTagBytes);
  uint8_t* text = bytes.data() + clear;
  const OpenSsl::Use use;
  if (!use) {  // nobody can open it, and nobody can read it
    memset(text, 0, size - clear + kTagBytes);
    return;
  }
  ThreadCipher& c = cipher();
  if (!c.begin(key_, number, true) || !c.take(nullptr, bytes.data(), clear) || !c.take(text, text, size - clear) ||
      !c.end() || !c.tag(OpenSsl::kGetTag, bytes.data() + size)) {
    throw std::runtime_error("R2CC_TLS=1: OpenSSL cannot encrypt: " + OpenSsl::get().lastError());
  }
}

bool Sealer::open(uint64_t number, size_t clear, const uint8_t* data, size_t size, std::vector<uint8_t>& plain) const {
  const OpenSsl::Use use;
  if (!use || size < clear + kTagBytes) return false;
  ThreadCipher& c = cipher();
  std::array<uint8_t, kTagBytes> tag{};
  memcpy(tag.data(), data + size - kTagBytes, kTagBytes);
  std::vector<uint8_t> out(size - clear - kTagBytes);
  if (!c.begin(key_, number, false) || !c.take(nullptr, data, clear) || !c.take(out.data(), data + clear, out.size()) ||
      !c.tag(OpenSsl::kSetTag, tag.data()) || !c.end()) {
    return false;
  }
  plain = std::move(out);
  return true;
}

}  // namespace r2cc
