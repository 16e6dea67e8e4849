// Page-aligned float memory, mapped for itself so that its size shows in the process's memory as it is.
#pragma once

#include <cstddef>

namespace r2cc::bench {

class FloatBuffer {
 public:
  FloatBuffer() = default;
  explicit FloatBuffer(size_t bytes);  // throws std::bad_alloc
  ~FloatBuffer();
  FloatBuffer(FloatBuffer&& other) noexcept;
  FloatBuffer& operator=(FloatBuffer&& other) noexcept;

  float* data() const { return data_; }
  char* bytes() const { return reinterpret_cast<char*>(data_); }
  size_t sizeBytes() const { return bytes_; }

 private:
  float* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace r2cc::bench
