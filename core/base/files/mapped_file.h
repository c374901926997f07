// A file mapped read-only. Nothing is read until it is touched; nothing beyond the file is mapped
// as accessible data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/base/result.h"

namespace tenon {

class MappedFile {
 public:
  // Errors: not_found (no such file), failed (not a regular file, cannot be read or mapped).
  static Result<MappedFile> open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }
  // Lets go of the memory that holds these bytes of the file; they are read again if touched.
  // [any]
  void release(std::span<const std::byte> part) const;

 private:
  MappedFile() = default;
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// A whole text file, for small ones (configuration, JSON). Refuses files over `limit_bytes`.
Result<std::string> read_text_file(const std::string& path, size_t limit_bytes = size_t{64} << 20);

}  // namespace tenon
