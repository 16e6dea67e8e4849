#include "wire/wire.h"

#include <tuple>

namespace r2cc {
namespace {
constexpr size_t kSealSize = std::tuple_size_v<Tag>;
static_assert(kSealSize == Sealer::kTagBytes);

size_t begin(const Header& header, std::vector<uint8_t>& bytes) {
  bytes.reserve(256);
  Writer w(bytes);
  w(kMagic), w(kWireVersion), w(header);
  return bytes.size();
}

bool sentByListener(const Header& header) { return header.keyOfSender != 0; }
}  // namespace

Datagram::Datagram(const Header& header)
    : number_(header.seq), fromListener_(sentByListener(header)), headerBytes_(begin(header, bytes_)) {}

bool Datagram::addRaw(Type type, const std::vector<uint8_t>& body) {
  if (bytes_.size() + 3 + body.size() + kSealSize > kMaxDatagram) return false;
  Writer w(bytes_);
  w(type), w(static_cast<uint16_t>(body.size()));
  bytes_.insert(bytes_.end(), body.begin(), body.end());
  messages_++;
  return true;
}

const std::vector<uint8_t>& Datagram::seal(const PairKey& key) {
  if (key.encrypts()) {
    key.sealer(fromListener_).seal(number_, headerBytes_, bytes_);
    return bytes_;
  }
  const Tag tag = sipTag(key.key(), bytes_.data(), bytes_.size());
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

bool Parsed::admit(const PairKey& key) {
  if (!key.encrypts()) return verify(key.key());
  const size_t clear = size_ - kSealSize - bodySize_;
  return key.sealer(sentByListener(header_)).open(header_.seq, clear, data_, size_, plain_);
}

}  // namespace r2cc
