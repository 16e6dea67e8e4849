#include "agree/protocol/secrets.h"

#include "base/bytes.h"

namespace r2cc::agree {
namespace {

constexpr uint32_t kMagic = 0x41433252;  // "R2CA"
constexpr uint8_t kVersion = 1;
// What is tagged begins with what it is for, so that no tag on the wire is ever a key or another kind of tag.
enum class Purpose : uint8_t { Door = 1, Up, Down, Hello, Welcome, Frame };

template <class... Parts>
Tag tagOf(const Key& key, Purpose purpose, const Parts&... parts) {
  std::vector<uint8_t> text;
  Writer w(text);
  w(purpose);
  (w(parts), ...);
  return sipTag(key, text.data(), text.size());
}

template <class M>
std::vector<uint8_t> sealed(const M& message, const Tag& tag) {
  std::vector<uint8_t> bytes;
  Writer w(bytes);
  w(message), w(tag);
  return bytes;
}

}  // namespace

Key doorKey(const Key& communicator, uint64_t agreement, uint32_t rank) {
  return tagOf(communicator, Purpose::Door, agreement, rank);
}

SessionKeys sessionKeys(const Key& door, const Hello& hello, const Welcome& welcome, const Encryption* with) {
  if (with != nullptr) {
    std::vector<uint8_t> text;
    Writer w(text);
    w(door), w(hello.nonce), w(welcome.nonce);
    const TlsKey both = derivedKey(with->secret, "r2cc agreement", text);
    return {FrameKey(Sealer(halfOf(both, 0))), FrameKey(Sealer(halfOf(both, 1)))};
  }
  return {tagOf(door, Purpose::Up, hello.nonce, welcome.nonce), tagOf(door, Purpose::Down, hello.nonce, welcome.nonce)};
}

std::vector<uint8_t> seal(const Hello& hello, const Key& door) {
  return sealed(hello, tagOf(door, Purpose::Hello, hello));
}

std::vector<uint8_t> seal(const Hello& hello, const Welcome& welcome, const Key& door) {
  return sealed(welcome, tagOf(door, Purpose::Welcome, hello, welcome));
}

std::optional<Hello> readHello(const uint8_t* bytes, uint64_t agreement) {
  Hello hello;
  Reader r(bytes, kHelloBytes);
  r(hello);
  if (hello.magic != kMagic || hello.version != kVersion || hello.agreement != agreement) return std::nullopt;
  return hello;
}

bool genuine(const uint8_t* helloBytes, const Key& door) {
  Hello hello;
  Reader r(helloBytes, kHelloBytes);
  r(hello);
  return sameTag(tagOf(door, Purpose::Hello, hello), helloBytes + kHelloBytes - sizeof(Tag));
}

std::optional<Welcome> readWelcome(const uint8_t* bytes, const Hello& hello, const Key& door) {
  Welcome welcome;
  Reader r(bytes, kWelcomeBytes);
  r(welcome);
  const Tag tag = tagOf(door, Purpose::Welcome, hello, welcome);
  if (!sameTag(tag, bytes + kWelcomeBytes - sizeof(Tag))) return std::nullopt;
  return welcome;
}

Hello newHello(uint64_t agreement, uint32_t rank) { return {kMagic, kVersion, agreement, rank, randomKey()}; }

Tag frameTag(const Key& key, uint64_t number, const uint8_t* bytes, size_t size) {
  std::vector<uint8_t> text;
  text.reserve(size + 16);
  Writer w(text);
  w(Purpose::Frame), w(number);
  text.insert(text.end(), bytes, bytes + size);
  return sipTag(key, text.data(), text.size());
}

void sealFrame(const FrameKey& key, uint64_t number, std::vector<uint8_t>& frame) {
  if (key.sealer) return key.sealer->seal(number, kLengthBytes, frame);
  const Tag tag = frameTag(key.key, number, frame.data(), frame.size());
  frame.insert(frame.end(), tag.begin(), tag.end());
}

const uint8_t* openFrame(const FrameKey& key, uint64_t number, const uint8_t* frame, size_t size,
                         std::vector<uint8_t>& plain) {
  if (key.sealer) return key.sealer->open(number, kLengthBytes, frame, size, plain) ? plain.data() : nullptr;
  const size_t tagged = size - sizeof(Tag);
  return sameTag(frameTag(key.key, number, frame, tagged), frame + tagged) ? frame + kLengthBytes : nullptr;
}

}  // namespace r2cc::agree
