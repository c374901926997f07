#include "core/conformance/watch/guarded_memory.h"

#include <algorithm>
#include <new>
#include <utility>

namespace tenon {
namespace {

constexpr unsigned char kFill = 0xff;
constexpr uint64_t kAlignment = 64;
constexpr uint64_t kPage = 4096;

}  // namespace

GuardedMemory::GuardedMemory(uint64_t bytes, bool at_begin)
    : pages_(map_guarded(bytes, kPage, 0)),
      page_bytes_(std::max((bytes + kPage - 1) / kPage, uint64_t{1}) * kPage),
      bytes_(bytes) {
  if (pages_.data == nullptr) throw std::bad_alloc();
  std::memset(pages_.data, kFill, page_bytes_);
  data_ = at_begin ? pages_.data : pages_.data + (page_bytes_ - bytes) / kAlignment * kAlignment;
}

GuardedMemory::GuardedMemory(GuardedMemory&& other) noexcept
    : pages_(std::exchange(other.pages_, {})),
      page_bytes_(other.page_bytes_),
      data_(other.data_),
      bytes_(other.bytes_) {}

GuardedMemory::~GuardedMemory() {
  unmap(pages_);
}

bool GuardedMemory::intact() const {
  const auto untouched = [](const std::byte* from, const std::byte* to) {
    return std::all_of(from, to, [](std::byte byte) { return byte == std::byte{kFill}; });
  };
  return untouched(pages_.data, data_) && untouched(data_ + bytes_, pages_.data + page_bytes_);
}

}  // namespace tenon
