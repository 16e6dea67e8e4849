#include "wire/wire.h"

#include <tuple>

namespace r2cc {
namespace {
constexpr size_t kSealSize = std::tuple_size_v<Tag>;
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
