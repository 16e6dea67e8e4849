#include "wire/encryption.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "base/bytes.h"
#include "base/fd.h"
#include "tls/tls_socket.h"
#include "wire/keys.h"

namespace r2cc {
namespace {

constexpr size_t kLeastSecret = 32, kMostSecret = 4096;  // bytes

[[noreturn]] void refuse(const std::string& file, const std::string& why) {
  throw std::invalid_argument("R2CC_TLS_SECRET_FILE=" + file + ": " + why);
}

/// Links are followed: that is how Kubernetes shows secrets.
std::vector<uint8_t> secretIn(const std::string& file) {
  const Fd fd(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status{};
  if (!fd.valid() || fstat(fd.get(), &status) != 0) refuse(file, strerror(errno));
  if (!S_ISREG(status.st_mode)) refuse(file, "it is no plain file");
  if ((status.st_mode & (S_IROTH | S_IWOTH)) != 0)
    refuse(file, "anybody on this host may read or write it. Take that away: chmod o-rw " + file);
  std::vector<uint8_t> bytes(kMostSecret + 1);
  const ssize_t got = read(fd.get(), bytes.data(), bytes.size());
  if (got < 0) refuse(file, strerror(errno));
  bytes.resize(static_cast<size_t>(got));
  if (bytes.size() < kLeastSecret || bytes.size() > kMostSecret) {
    refuse(file, "it holds " + (bytes.size() > kMostSecret ? "more than 4096" : std::to_string(bytes.size())) +
                     " bytes. It should be 32 to 4096 that nobody can guess: openssl rand -hex 32 > " + file);
  }
  return bytes;
}

/// A key of HMAC-SHA256 is as long as two of the cipher's.
Sealer::Key half(const TlsKey& key, size_t which) {
  Sealer::Key out{};
  std::copy_n(key.begin() + which * out.size(), out.size(), out.begin());
  return out;
}

std::vector<uint8_t> numbers(uint64_t a, uint64_t b) {
  std::vector<uint8_t> out;
  Writer w(out);
  w(a), w(b);
  return out;
}

}  // namespace

std::shared_ptr<const Encryption> encryptionOf(const std::string& wanted, const std::string& secretFile) {
  if (wanted.empty() || wanted == "0") {
    if (!secretFile.empty())
      throw std::invalid_argument("R2CC_TLS_SECRET_FILE is set, and R2CC_TLS=1 is not: set both");
    return nullptr;
  }
  if (wanted != "1") throw std::invalid_argument("R2CC_TLS is 0 or 1, not " + wanted);
  auto out = std::make_shared<Encryption>();
  try {
    TlsSocket::prepare();
    if (!secretFile.empty()) {
      out->secret = derivedKey({}, "r2cc secret", secretIn(secretFile));
      const TlsKey check = derivedKey(out->secret, "r2cc check", {});
      memcpy(&out->check, check.data(), sizeof(out->check));
      out->check |= 1;  // never 0
    }
  } catch (const std::invalid_argument&) {
    throw;
  } catch (const std::exception& problem) {
    throw std::invalid_argument(problem.what());
  }
  return out;
}

PairKey::Encrypted::Encrypted(const TlsKey& datagrams, const TlsKey& secret, std::vector<uint8_t> pair)
    : fromConnector(half(datagrams, 0)), fromListener(half(datagrams, 1)), secret(secret), pair(std::move(pair)) {}

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
