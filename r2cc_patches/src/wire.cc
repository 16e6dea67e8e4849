#include "wire.h"

#include <algorithm>
#include <tuple>

namespace r2cc {
namespace {
constexpr size_t kSealSize = std::tuple_size_v<Tag>;
}

sockaddr_storage NicAddress::sockaddr() const {
  sockaddr_storage out{};
  if (family == AF_INET) {
    auto* in = reinterpret_cast<sockaddr_in*>(&out);
    in->sin_family = AF_INET;
    in->sin_port = htons(port);
    memcpy(&in->sin_addr, ip.data(), 4);
  } else {
    auto* in6 = reinterpret_cast<sockaddr_in6*>(&out);
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(port);
    memcpy(&in6->sin6_addr, ip.data(), 16);
  }
  return out;
}

NicAddress NicAddress::from(const sockaddr_storage& address) {
  NicAddress out;
  out.family = static_cast<uint8_t>(address.ss_family);
  if (address.ss_family == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(&address);
    out.port = ntohs(in->sin_port);
    memcpy(out.ip.data(), &in->sin_addr, 4);
  } else if (address.ss_family == AF_INET6) {
    const auto* in6 = reinterpret_cast<const sockaddr_in6*>(&address);
    out.port = ntohs(in6->sin6_port);
    memcpy(out.ip.data(), &in6->sin6_addr, 16);
  }
  return out;
}

bool NicAddress::sameSubnet(const NicAddress& other) const {
  if (family != other.family || prefix != other.prefix) return false;
  const size_t bits = std::min<size_t>(prefix, family == AF_INET ? 32 : 128);
  for (size_t i = 0; i < bits; i += 8) {
    const auto mask = static_cast<uint8_t>(bits - i >= 8 ? 0xff : 0xff << (8 - (bits - i)));
    if ((ip[i / 8] ^ other.ip[i / 8]) & mask) return false;
  }
  return true;
}

Datagram::Datagram(const Header& header) {
  bytes_.reserve(256);
  Writer w(bytes_);
  w(kMagic), w(kWireVersion), w(header);
}

bool Datagram::addRaw(Type type, const std::vector<uint8_t>& body) {
  if (bytes_.size() + 3 + body.size() + kSealSize > kMaxDatagram) return false;
  Writer w(bytes_);
  w(type), w(static_cast<uint16_t>(body.size()));
  bytes_.insert(bytes_.end(), body.begin(), body.end());
  messages_++;
  return true;
}

const std::vector<uint8_t>& Datagram::seal(const Key& key) {
  const Tag tag = sipTag(key, bytes_.data(), bytes_.size());
  bytes_.insert(bytes_.end(), tag.begin(), tag.end());
  return bytes_;
}

std::optional<Parsed> Parsed::open(const uint8_t* data, size_t size) {
  if (size < kSealSize) return std::nullopt;
  Parsed out;
  out.data_ = data;
  out.size_ = size;
  Reader r(data, size - kSealSize);
  uint32_t magic = 0;
  uint8_t version = 0;
  r(magic), r(version), r(out.header_);
  if (!r.ok() || magic != kMagic || version != kWireVersion) return std::nullopt;
  out.bodySize_ = r.left();
  out.body_ = data + size - kSealSize - out.bodySize_;
  return out;
}

bool Parsed::verify(const Key& key) const {
  return sameTag(sipTag(key, data_, size_ - kSealSize), data_ + size_ - kSealSize);
}

}  // namespace r2cc
