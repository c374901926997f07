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

uint64_t slots_begin() {
  return (sizeof(SharedHeader) + kPageBytes - 1) / kPageBytes * kPageBytes;
}

}  // namespace

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
