#include "tls/job_secret.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "base/fd.h"
#include "tls/crypto.h"
#include "tls/tls_socket.h"

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

}  // namespace r2cc
