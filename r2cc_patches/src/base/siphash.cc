#include "base/siphash.h"

#include <endian.h>
#include <sys/random.h>

#include <cstring>
#include <stdexcept>

namespace r2cc {
namespace {

uint64_t load64(const uint8_t* p) {
  uint64_t v = 0;
  memcpy(&v, p, sizeof(v));
  return le64toh(v);
}

uint64_t rotl(uint64_t x, int b) { return (x << b) | (x >> (64 - b)); }

struct State {
  uint64_t a, b, c, d;
  void round() {
    a += b, b = rotl(b, 13) ^ a, a = rotl(a, 32);
    c += d, d = rotl(d, 16) ^ c;
    a += d, d = rotl(d, 21) ^ a;
    c += b, b = rotl(b, 17) ^ c, c = rotl(c, 32);
  }
  void absorb(uint64_t word) {
    d ^= word;
    round();
    round();
    a ^= word;
  }
};

State keyed(const Key& key) {
  const uint64_t k0 = load64(key.data());
  const uint64_t k1 = load64(key.data() + 8);
  return {k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573};
}

void absorbAll(State& s, const uint8_t* data, size_t size) {
  size_t i = 0;
  for (; i + 8 <= size; i += 8) s.absorb(load64(data + i));
  uint64_t last = uint64_t{size & 0xff} << 56;
  for (size_t j = 0; i + j < size; j++) last |= uint64_t{data[i + j]} << (8 * j);
  s.absorb(last);
}

uint64_t finish(State& s) {
  for (int r = 0; r < 4; r++) s.round();
  return s.a ^ s.b ^ s.c ^ s.d;
}

void store64(uint8_t* p, uint64_t v) {
  const uint64_t bytes = htole64(v);
  memcpy(p, &bytes, sizeof(bytes));
}

}  // namespace

uint64_t sipHash(const Key& key, const uint8_t* data, size_t size) {
  State s = keyed(key);
  absorbAll(s, data, size);
  s.c ^= 0xff;
  return finish(s);
}

Tag sipTag(const Key& key, const uint8_t* data, size_t size) {
  Tag tag;
  State s = keyed(key);
  s.b ^= 0xee;
  absorbAll(s, data, size);
  s.c ^= 0xee;
  store64(tag.data(), finish(s));
  s.b ^= 0xdd;
  store64(tag.data() + 8, finish(s));
  return tag;
}

bool sameTag(const Tag& tag, const uint8_t* other) {
  volatile uint8_t different = 0;  // volatile: no early end, whatever the compiler thinks of it
  for (size_t i = 0; i < tag.size(); i++) different = static_cast<uint8_t>(different | (tag[i] ^ other[i]));
  return different == 0;
}

Key randomKey() {
  Key key;
  if (getrandom(key.data(), key.size(), 0) != static_cast<ssize_t>(key.size())) {
    throw std::runtime_error("getrandom failed");
  }
  return key;
}

uint64_t randomId() {
  const Key key = randomKey();
  return load64(key.data()) | 1;  // never 0, which means "nobody"
}

}  // namespace r2cc
