// Bounds-checked little-endian encoding. A message type lists its fields once, in fields(); Writer writes what Reader
// reads. A Reader that ran past its input stays failed and yields zeros, so parsers check once, at the end.
#pragma once

#include <endian.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace r2cc {

/// A list among a message's fields: its count is one byte, and no more than `most`.
template <class T>
struct List {
  std::vector<T>& items;
  const size_t most;
};

template <class T>
List<T> atMost(size_t most, std::vector<T>& items) {
  return {items, most};
}

/// What a message's fields() returns.
template <class... Fields>
std::tuple<Fields...> inOrder(Fields&&... fields) {
  return std::tuple<Fields...>(std::forward<Fields>(fields)...);
}

class Writer {
 public:
  explicit Writer(std::vector<uint8_t>& out) : out_(out) {}

  template <class T>
  void operator()(const T& value) {
    if constexpr (std::is_enum_v<T>) {
      integer(static_cast<std::underlying_type_t<T>>(value));
    } else if constexpr (std::is_integral_v<T>) {
      integer(value);
    } else {
      std::apply([this](auto&&... field) { ((*this)(field), ...); }, const_cast<T&>(value).fields());
    }
  }
  template <size_t N>
  void operator()(const std::array<uint8_t, N>& bytes) {
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  }
  template <class T>
  void operator()(const List<T>& list) {
    (*this)(static_cast<uint8_t>(list.items.size()));
    for (const T& item : list.items) (*this)(item);
  }

 private:
  template <class T>
  void integer(T value) {
    // At once, not byte by byte: a datagram's header alone has 45 of them.
    const uint64_t wide = htole64(static_cast<uint64_t>(value));
    std::array<uint8_t, sizeof(wide)> bytes;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled next
    memcpy(bytes.data(), &wide, sizeof(wide));
    out_.insert(out_.end(), bytes.begin(), bytes.begin() + sizeof(T));
  }
  std::vector<uint8_t>& out_;
};

class Reader {
 public:
  Reader(const uint8_t* data, size_t size) : at_(data), left_(size) {}

  template <class T>
  void operator()(T& value) {
    if constexpr (std::is_enum_v<T>) {
      std::underlying_type_t<T> raw{};
      integer(raw);
      value = static_cast<T>(raw);
    } else if constexpr (std::is_integral_v<T>) {
      integer(value);
    } else {
      std::apply([this](auto&&... field) { ((*this)(field), ...); }, value.fields());
    }
  }
  template <size_t N>
  void operator()(std::array<uint8_t, N>& bytes) {
    if (take(N)) memcpy(bytes.data(), at_ - N, N);
  }
  template <class T>
  void operator()(List<T>& list) {
    uint8_t count = 0;
    (*this)(count);
    if (count > list.most) ok_ = false;
    list.items.clear();
    for (uint8_t i = 0; ok_ && i < count; i++) (*this)(list.items.emplace_back());
  }
  /// A reader over the next `size` bytes, which this reader skips.
  Reader sub(size_t size) { return take(size) ? Reader(at_ - size, size) : Reader(at_, 0); }

  bool ok() const { return ok_; }
  size_t left() const { return left_; }

 private:
  bool take(size_t size) {
    if (!ok_ || size > left_) return ok_ = false;
    at_ += size;
    left_ -= size;
    return true;
  }
  template <class T>
  void integer(T& value) {
    value = 0;
    if (!take(sizeof(T))) return;
    uint64_t wide = 0;
    memcpy(&wide, at_ - sizeof(T), sizeof(T));
    value = static_cast<T>(le64toh(wide));
  }
  const uint8_t* at_;
  size_t left_;
  bool ok_ = true;
};

}  // namespace r2cc
