#include "wire/refusal.h"

#include <sys/socket.h>

#include <algorithm>
#include <tuple>

#include "base/fd.h"
#include "wire/keys.h"

namespace r2cc {
namespace {

constexpr size_t kTagSize = std::tuple_size_v<Tag>;
constexpr int kCopies = 3;

}  // namespace

std::vector<uint8_t> Refusal::sealed(const ConnectHandle& handle, uint64_t from, const std::string& why) {
  Refusal out;
  out.from = from, out.to = handle.process, out.listen = handle.listen;
  out.text.assign(why.begin(), why.begin() + static_cast<std::ptrdiff_t>(std::min(why.size(), kMostText)));
  std::vector<uint8_t> bytes;
  Writer w(bytes);
  w(kMagic), w(kAnyVersion), w(out);
  const Tag tag = sipTag(pairKey(handle.key, from, handle.process), bytes.data(), bytes.size());
  bytes.insert(bytes.end(), tag.begin(), tag.end());
  return bytes;
}

std::optional<Refusal> Refusal::open(const uint8_t* data, size_t size) {
  if (size < kTagSize) return std::nullopt;
  Reader r(data, size - kTagSize);
  uint32_t magic = 0;
  uint8_t version = 0;
  Refusal out;
  r(magic), r(version), r(out);
  if (!r.ok() || r.left() > 0 || magic != kMagic || version != kAnyVersion) return std::nullopt;
  return out;
}

bool Refusal::genuine(const uint8_t* data, size_t size, const Refusal& read, const Key& own) {
  return sameTag(sipTag(pairKey(own, read.from, read.to), data, size - kTagSize), data + size - kTagSize);
}

std::string Refusal::readable() const {
  std::string out(text.begin(), text.end());
  std::replace_if(out.begin(), out.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return out;
}

void refuseOnce(const ConnectHandle& handle, const std::string& why) {
  const std::vector<uint8_t> bytes = Refusal::sealed(handle, randomId(), why);
  for (const NicAddress& nic : handle.nics) {
    if (nic.family != AF_INET && nic.family != AF_INET6) continue;
    const sockaddr_storage to = nic.sockaddr();
    const Fd fd(socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const socklen_t length = to.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    for (int i = 0; i < kCopies && fd.valid(); i++) {
      (void)sendto(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&to), length);
    }
  }
}

}  // namespace r2cc
