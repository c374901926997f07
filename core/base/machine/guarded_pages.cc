#include "core/base/machine/guarded_pages.h"

#include <sys/mman.h>

#include <algorithm>

namespace tenon {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kLine = 64;

constexpr size_t round_up(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

// Counted by the system where it may be written alone: guards take addresses, no memory.
GuardedPages map_guarded(size_t bytes, size_t alignment, int flags) noexcept {
  if (bytes > PTRDIFF_MAX / 2) return {};
  const size_t pages = round_up(std::max<size_t>(bytes, 1), kPage);
  const size_t room = alignment > kPage ? alignment : 0;
  GuardedPages made;
  made.mapped_bytes = kGuardBytes + room + pages + kGuardBytes;
  made.mapping =
      ::mmap(nullptr, made.mapped_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  if (made.mapping == MAP_FAILED) return {};
  const auto first = reinterpret_cast<uintptr_t>(made.mapping) + kGuardBytes;
  auto* begin = static_cast<std::byte*>(made.mapping) + kGuardBytes;
  if (room > 0) begin += -first % alignment;
  if (::mprotect(begin, pages, PROT_READ | PROT_WRITE) != 0) {
    unmap(made);
    return {};
  }
  made.data = begin;
  return made;
}

void unmap(const GuardedPages& pages) noexcept {
  if (pages.mapping != nullptr) ::munmap(pages.mapping, pages.mapped_bytes);
}

namespace detail {

void* allocate_guarded(size_t bytes) noexcept {
  const GuardedPages pages = map_guarded(bytes, kPage, 0);
  if (pages.data == nullptr) return nullptr;
  const size_t whole = round_up(std::max<size_t>(bytes, 1), kPage);
  return pages.data + (whole - std::max<size_t>(bytes, 1)) / kLine * kLine;
}

void free_guarded(void* data, size_t bytes) noexcept {
  if (data == nullptr) return;
  const auto first = reinterpret_cast<uintptr_t>(data) / kPage * kPage;
  const size_t whole = round_up(std::max<size_t>(bytes, 1), kPage);
  ::munmap(reinterpret_cast<void*>(first - kGuardBytes), kGuardBytes + whole + kGuardBytes);
}

}  // namespace detail
}  // namespace tenon
