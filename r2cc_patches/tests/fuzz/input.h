// A fuzzer's bytes, read as decisions. Past the end every answer is 0, so that each prefix of an input is an input.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "base/bytes.h"

namespace r2cc::fuzz {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : at_(data), left_(size) {}
  bool empty() const { return left_ == 0; }
  uint8_t byte() {
    if (left_ == 0) return 0;
    left_--;
    return *at_++;
  }
  uint8_t below(uint8_t limit) { return static_cast<uint8_t>(byte() % limit); }
  std::vector<uint8_t> bytes(size_t most) {
    std::vector<uint8_t> out(most < left_ ? most : left_);
    for (uint8_t& b : out) b = byte();
    return out;
  }
  /// Mostly one of the small numbers that connections, lanes and epochs have; now and then anything.
  uint64_t number() {
    const uint8_t choice = byte();
    if (choice < 192) return choice % 8;
    if (choice < 208) return UINT64_MAX - choice % 4;
    if (choice < 224) return uint64_t{1} << (byte() % 64);
    uint64_t out = 0;
    for (int i = 0; i < 8; i++) out = out << 8 | byte();
    return out;
  }

 private:
  const uint8_t* at_;
  size_t left_;
};

/// Fills a message's fields, whatever they are, from an input: as Reader does from a datagram.
class Filler {
 public:
  explicit Filler(Input& in) : in_(in) {}
  template <class T>
  void operator()(T& value) {
    if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(in_.number());
    } else {
      std::apply([this](auto&&... field) { ((*this)(field), ...); }, value.fields());
    }
  }
  template <size_t N>
  void operator()(std::array<uint8_t, N>& bytes) {
    for (uint8_t& b : bytes) b = in_.byte();
  }
  template <class T>
  void operator()(List<T>& list) {
    list.items.resize(in_.byte() % (list.most + 1));
    for (T& item : list.items) (*this)(item);
  }

 private:
  Input& in_;
};

}  // namespace r2cc::fuzz
