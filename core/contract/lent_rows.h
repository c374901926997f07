// What a plugin is lent to read and must not write into – logits, histories, activations –
// remembered by checksums: a copy of a row of logits would take as much memory again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tenon {

// Differs where a single byte does, and almost surely where more do, also where they only change
// places. As fast as memory is read; not for strangers, who could find two rows of one sum.
uint64_t sum_of_bytes(const void* data, size_t bytes) noexcept;

// Its memory is used again. Of one thread.
class LentRows {
 public:
  void begin() { parts_.clear(); }
  // All of it; null counts as nothing.
  void add(const void* data, size_t bytes);
  template <typename T>
  void add(std::span<const T> lent) {
    add(lent.data(), lent.size_bytes());
  }
  // Of what may be long: kPartBytes of it at most, others at each call of a thread.
  void add_part(const void* data, size_t bytes);
  // Likewise of rows of `row_bytes` each that begin `stride_bytes` from each other; one row at
  // least.
  void add_rows(const void* data, size_t row_bytes, size_t stride_bytes, size_t rows);
  bool unchanged() const;

  static constexpr size_t kPartBytes = size_t{16} << 10;  // half of a core's fastest memory

 private:
  struct Part {
    const void* data = nullptr;
    size_t bytes = 0;
    uint64_t sum = 0;
  };
  std::vector<Part> parts_;
};

}  // namespace tenon
