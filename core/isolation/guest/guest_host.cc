#include <algorithm>
#include <bit>
#include <cstdlib>

#include "core/isolation/guest/guest.h"

namespace tenon {
namespace {

constexpr size_t kMostKeptNotes = 256;  // until the next reply; further ones are lost
constexpr size_t kMostNoteBytes = 4096;
constexpr uint64_t kLargestGuestAllocation = uint64_t{1} << 46;

void* guest_allocate(void*, Space space, uint64_t bytes, uint64_t alignment) noexcept {
  if (space.kind != SpaceKind::host || !std::has_single_bit(alignment) || alignment > 4096 ||
      bytes > kLargestGuestAllocation) {
    return nullptr;
  }
  void* memory = nullptr;
  const uint64_t at_least = std::max<uint64_t>(alignment, sizeof(void*));
  return posix_memalign(&memory, at_least, std::max<uint64_t>(bytes, 1)) == 0 ? memory : nullptr;
}
void guest_free(void*, Space, void* memory) noexcept {
  std::free(memory);
}

}  // namespace

GuestHost::GuestHost(const HostFacts& facts) : facts_(facts) {
  services_.context = this;
  services_.facts = &facts_;
  services_.log = [](void* self, LogLevel level, std::string_view text) noexcept {
    static_cast<GuestHost*>(self)->keep(
        {{true, level, 0}, std::string(text.substr(0, kMostNoteBytes))});
  };
  services_.count = [](void* self, std::string_view counter, uint64_t amount) noexcept {
    if (counter.data() == nullptr) return;
    static_cast<GuestHost*>(self)->keep(
        {{false, LogLevel::info, amount}, std::string(counter.substr(0, kMostNoteBytes))});
  };
  services_.allocate = guest_allocate;
  services_.free = guest_free;
  services_.now_ns = [](void* self) noexcept {
    return static_cast<GuestHost*>(self)->now_ns_.load(std::memory_order_relaxed);
  };
  services_.extension = [](void*, std::string_view) noexcept -> const void* { return nullptr; };
}

void GuestHost::keep(Kept kept) {
  const std::lock_guard lock(mutex_);
  // Counts of a step are one note.
  for (Kept& known : notes_) {
    if (known.note.is_line || kept.note.is_line || known.text != kept.text) continue;
    known.note.amount += kept.note.amount;
    return;
  }
  if (notes_.size() < kMostKeptNotes) notes_.push_back(std::move(kept));
}

void GuestHost::write_notes(WireWriter& out) {
  const std::lock_guard lock(mutex_);
  out.put(static_cast<uint32_t>(notes_.size()));
  for (const Kept& kept : notes_) {
    out.put(kept.note);
    out.put_text(kept.text);
  }
  notes_.clear();
}

WireWriter& GuestReply::begin(const Status& status) {
  out_.put(status.code());
  out_.put_text(status.message());
  if (host_ != nullptr) {
    host_->write_notes(out_);
  } else {
    out_.put(uint32_t{0});
  }
  return out_;
}

}  // namespace tenon
