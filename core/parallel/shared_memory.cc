#include "core/parallel/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <string>

namespace tenon {
namespace {

constexpr uint64_t kPageBytes = 4096;
// A room's place in the file, which has pages only where somebody has written.
constexpr uint64_t kRoomBytes = uint64_t{1} << 40;
constexpr uint64_t kMostRooms = uint64_t{1} << 20;

uint64_t slots_begin() {
  return (sizeof(SharedHeader) + kPageBytes - 1) / kPageBytes * kPageBytes;
}

}  // namespace

SharedRoom::SharedRoom(void* mapping, uint64_t bytes, int descriptor, uint64_t offset)
    : data_(static_cast<std::byte*>(mapping)),
      bytes_(bytes),
      descriptor_(descriptor),
      offset_(offset) {
  ++users();
}

SharedRoom::~SharedRoom() {
  if (--users() == 0) {
    static_cast<void>(fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                static_cast<off_t>(offset_), static_cast<off_t>(bytes_)));
  }
  munmap(data_, bytes_);
  if (descriptor_ >= 0) close(descriptor_);
}

std::byte* SharedRoom::data() const {
  return data_ + kPageBytes;
}
uint64_t SharedRoom::bytes() const {
  return bytes_ - kPageBytes;
}

// Whoever comes first makes the file long enough, and nobody shorter.
Result<std::unique_ptr<SharedRoom>> SharedMemory::room(uint64_t number, uint64_t bytes) const {
  const auto none = [](const std::string& cause) {
    return out_of_memory("ranks cannot share memory for activations: " + cause);
  };
  if (bytes > kRoomBytes - 2 * kPageBytes || number >= kMostRooms) {
    return none("it would be too large");
  }
  bytes = kPageBytes + (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  const uint64_t offset = (bytes_ / kRoomBytes + 1 + number) * kRoomBytes;
  if (fallocate(descriptor_, 0, static_cast<off_t>(offset + bytes - kPageBytes), kPageBytes) != 0) {
    return none(std::strerror(errno));
  }
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_,
                    static_cast<off_t>(offset));
  if (data == MAP_FAILED) return none(std::strerror(errno));
  const int own = fcntl(descriptor_, F_DUPFD_CLOEXEC, 0);
  return std::make_unique<SharedRoom>(data, bytes, own, offset);
}

Result<std::unique_ptr<SharedMemory>> SharedMemory::map(int descriptor, uint32_t ranks,
                                                        uint64_t slot_bytes) {
  auto made = std::unique_ptr<SharedMemory>(new SharedMemory());
  made->descriptor_ = descriptor;
  made->first_slot_ = slots_begin();
  made->slot_bytes_ = slot_bytes;
  made->bytes_ = made->first_slot_ + uint64_t{ranks} * kSlots * slot_bytes;
  void* data = mmap(nullptr, made->bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) {
    return out_of_memory("ranks cannot map the memory that they share: " +
                         std::string(std::strerror(errno)));
  }
  made->data_ = data;
  return made;
}

Result<std::unique_ptr<SharedMemory>> SharedMemory::create(uint32_t ranks, uint64_t slot_bytes) {
  const int descriptor = memfd_create("tenon-ranks", MFD_CLOEXEC);
  if (descriptor < 0) {
    return failed("the system grants no memory for ranks to share: " +
                  std::string(std::strerror(errno)));
  }
  const uint64_t bytes = slots_begin() + uint64_t{ranks} * kSlots * slot_bytes;
  if (ftruncate(descriptor, static_cast<off_t>(bytes)) != 0) {
    const std::string cause = std::strerror(errno);
    close(descriptor);
    return out_of_memory("the system grants no memory for ranks to share: " + cause);
  }
  auto made = map(descriptor, ranks, slot_bytes);
  if (made.ok()) new (&(*made)->header()) SharedHeader();
  return made;
}

Result<std::unique_ptr<SharedMemory>> SharedMemory::open(int64_t process, int descriptor,
                                                         uint32_t ranks, uint64_t slot_bytes) {
  const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(descriptor);
  const int own = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (own < 0) {
    return failed("the memory of rank 0 (process " + std::to_string(process) +
                  ") cannot be opened: " + std::strerror(errno) +
                  "; ranks of one host must run as one user, in one container");
  }
  return map(own, ranks, slot_bytes);
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, bytes_);
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace tenon
