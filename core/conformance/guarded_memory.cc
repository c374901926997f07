#include "core/conformance/guarded_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <utility>

namespace tenon {
namespace {

constexpr unsigned char kFill = 0xff;
constexpr uint64_t kAlignment = 64;

uint64_t page_bytes() {
  static const auto kBytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return kBytes;
}

}  // namespace

GuardedMemory::GuardedMemory(uint64_t bytes, bool at_begin) : bytes_(bytes) {
  const uint64_t page = page_bytes();
  const uint64_t room = std::max((bytes + page - 1) / page, uint64_t{1}) * page;
  map_bytes_ = room + 2 * page;
  void* map = ::mmap(nullptr, map_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) throw std::bad_alloc();
  map_ = static_cast<std::byte*>(map);
  std::byte* inside = map_ + page;
  if (::mprotect(inside, room, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  std::memset(inside, kFill, room);
  data_ = at_begin ? inside : inside + (room - bytes) / kAlignment * kAlignment;
}

GuardedMemory::GuardedMemory(GuardedMemory&& other) noexcept
    : map_(std::exchange(other.map_, nullptr)),
      map_bytes_(other.map_bytes_),
      data_(other.data_),
      bytes_(other.bytes_) {}

GuardedMemory::~GuardedMemory() {
  if (map_ != nullptr) ::munmap(map_, map_bytes_);
}

bool GuardedMemory::intact() const {
  const uint64_t page = page_bytes();
  const auto untouched = [](const std::byte* from, const std::byte* to) {
    return std::all_of(from, to, [](std::byte byte) { return byte == std::byte{kFill}; });
  };
  return untouched(map_ + page, data_) && untouched(data_ + bytes_, map_ + map_bytes_ - page);
}

}  // namespace tenon
