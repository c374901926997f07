#include "core/transfer/memory_stream.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "core/base/files/descriptor.h"
#include "core/base/threads/futex.h"
#include "core/base/threads/pause.h"

namespace tenon {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<char, 8> kGreeting = {'T', 'E', 'N', 'O', 'N', '-', 'K', 'M'};
// K and V come from the end that accepted; what is asked for is short. Powers of two.
constexpr uint32_t kForwardBytes = 256 << 10;
constexpr uint32_t kBackwardBytes = 4 << 20;
// Copied at once: what is there is told early, so that both ends copy at the same time.
constexpr uint32_t kPieceBytes = 128 << 10;
constexpr uint32_t kSpins = 200;
// A yield that takes longer has let somebody else run, who may be the one that is waited for.
constexpr int64_t kYieldNs = 300'000, kLongYieldNs = 100'000;
// A sleeper looks around so often for another end that is gone.
constexpr timespec kLookAround{.tv_sec = 0, .tv_nsec = 50'000'000};
constexpr unsigned kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

// In the shared memory. Counters of bytes wrap.
struct Counter {
  alignas(64) std::atomic<uint32_t> value{0};
  std::atomic<uint32_t> sleeps{0};  // 1 while the other end sleeps until it changes
};
struct Pipe {
  Counter written;
  Counter read;
  alignas(64) std::atomic<uint32_t> closed{0};
};
struct Header {
  Pipe forward;   // from the end that connected
  Pipe backward;  // to it
};
constexpr size_t kHeaderBytes = 4096;
static_assert(sizeof(Header) <= kHeaderBytes);
static_assert(kHeaderBytes + kForwardBytes + kBackwardBytes == kMemoryStreamBytes);

Status fault(const std::string& what) {
  return failed(what + ": " + std::generic_category().message(errno));
}

class Mapping {
 public:
  explicit Mapping(int descriptor)
      : data_(::mmap(nullptr, kMemoryStreamBytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor,
                     0)) {}
  ~Mapping() {
    if (is_there()) ::munmap(data_, kMemoryStreamBytes);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  bool is_there() const { return data_ != MAP_FAILED; }
  Header& header() const { return *static_cast<Header*>(data_); }
  std::byte* bytes() const { return static_cast<std::byte*>(data_) + kHeaderBytes; }

 private:
  void* data_;
};

// One direction, as one of its ends sees it.
struct End {
  Pipe* pipe = nullptr;
  std::byte* bytes = nullptr;
  uint32_t capacity = 0;
  uint32_t at = 0;  // what this end has told of: nobody else can change it
};

class MemoryStream final : public KvStream {
 public:
  MemoryStream(int socket, int64_t silence_ns) : socket_(socket), silence_ns_(silence_ns) {}

  Status offer();
  Status read(std::span<std::byte> out) override;
  Status write(std::span<const std::byte> first, std::span<const std::byte> second) override;
  void shut_down() override;
  bool keeps_bytes() const override { return true; }

 private:
  Status take_offer();
  void map(std::unique_ptr<Mapping> mapping, bool connected);
  Status write(std::span<const std::byte> bytes);
  template <typename Ready>
  Status wait_for(Counter& counter, const Pipe& pipe, Ready&& ready) const;
  bool other_is_gone() const;

  const Descriptor socket_;
  const int64_t silence_ns_;
  std::unique_ptr<Mapping> mapping_;
  End in_, out_;
  std::atomic<bool> mapped_ = false;  // what `shut_down` may touch
  std::atomic<bool> stopped_ = false;
};

void MemoryStream::map(std::unique_ptr<Mapping> mapping, bool connected) {
  mapping_ = std::move(mapping);
  Header& header = mapping_->header();
  in_ = {&header.backward, mapping_->bytes() + kForwardBytes, kBackwardBytes};
  out_ = {&header.forward, mapping_->bytes(), kForwardBytes};
  if (!connected) std::swap(in_, out_);
  mapped_ = true;
}

// Its size is sealed, so that neither end can take pages away from the other.
Status MemoryStream::offer() {
  const Descriptor memory(::memfd_create("tenon-kv", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (memory.get() < 0) return fault("no memory can be shared");
  if (::fallocate(memory.get(), 0, 0, kMemoryStreamBytes) != 0 ||
      ::fcntl(memory.get(), F_ADD_SEALS, kSeals) != 0) {
    return fault("the system grants no memory to share");
  }
  auto mapping = std::make_unique<Mapping>(memory.get());
  if (!mapping->is_there()) return fault("the memory to share cannot be mapped");
  new (&mapping->header()) Header();
  std::array<char, kGreeting.size()> greeting = kGreeting;
  iovec part = {greeting.data(), greeting.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> room = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room.data();
  message.msg_controllen = room.size();
  cmsghdr* const control = CMSG_FIRSTHDR(&message);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof(int));
  const int descriptor = memory.get();
  std::memcpy(CMSG_DATA(control), &descriptor, sizeof(descriptor));
  if (::sendmsg(socket_.get(), &message, MSG_NOSIGNAL) != ssize_t{kGreeting.size()}) {
    return fault("the memory to share was not taken");
  }
  map(std::move(mapping), true);
  return {};
}

Status MemoryStream::take_offer() {
  std::array<char, kGreeting.size()> greeting = {};
  iovec part = {greeting.data(), greeting.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> room = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room.data();
  message.msg_controllen = room.size();
  ssize_t count = -1;
  do {
    count = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
  } while (count < 0 && errno == EINTR);
  if (count < 0) return fault("nothing came");
  const cmsghdr* const control = CMSG_FIRSTHDR(&message);
  const bool has_descriptor = control != nullptr && control->cmsg_type == SCM_RIGHTS &&
                              control->cmsg_len == CMSG_LEN(sizeof(int));
  int descriptor = -1;
  if (has_descriptor) std::memcpy(&descriptor, CMSG_DATA(control), sizeof(descriptor));
  const Descriptor memory(descriptor);
  if (!has_descriptor || count != ssize_t{kGreeting.size()} || greeting != kGreeting) {
    return failed("the other end shares no memory");
  }
  struct stat status = {};
  const int seals = ::fcntl(descriptor, F_GET_SEALS);
  const bool is_sealed = seals >= 0 && (static_cast<unsigned>(seals) & kSeals) == kSeals;
  if (!is_sealed || ::fstat(descriptor, &status) != 0 ||
      status.st_size != off_t{kMemoryStreamBytes}) {
    return failed("the memory that the other end shares is of another size, or may change it");
  }
  auto mapping = std::make_unique<Mapping>(descriptor);
  if (!mapping->is_there()) return fault("the memory to share cannot be mapped");
  map(std::move(mapping), false);
  return {};
}

bool MemoryStream::other_is_gone() const {
  pollfd asked = {socket_.get(), POLLRDHUP, 0};
  return ::poll(&asked, 1, 0) > 0;
}

// Until `ready` says so of what the other end has counted.
template <typename Ready>
Status MemoryStream::wait_for(Counter& counter, const Pipe& pipe, Ready&& ready) const {
  const auto is_ready = [&] { return ready(counter.value.load(std::memory_order_acquire)); };
  for (uint32_t spins = 0; spins < kSpins; ++spins) {
    if (stopped_) return failed("shut down");
    if (is_ready()) return {};
    pause_core();
  }
  const auto start = Clock::now();
  // Both ends copy at about the same speed: who is ahead would sleep at each piece, and wake up
  // late.
  const auto ends = [&] { return stopped_ || is_ready(); };
  if (yield_until(ends, kYieldNs, kLongYieldNs) && !stopped_) return {};
  for (bool looked = false;;) {
    if (stopped_) return failed("shut down");
    counter.sleeps.store(1);
    const uint32_t seen = counter.value.load();
    if (ready(seen)) break;
    // What came before the end is still taken.
    if (looked) return failed("the other end closed the connection");
    looked = pipe.closed.load() != 0 || other_is_gone();
    if (looked) continue;
    if (Clock::now() - start > std::chrono::nanoseconds(silence_ns_)) {
      return failed("nothing came");
    }
    sleep_while(counter.value, seen, &kLookAround);
  }
  counter.sleeps.store(0, std::memory_order_relaxed);
  return {};
}

Status MemoryStream::read(std::span<std::byte> out) {
  if (!mapped_) TENON_RETURN_IF_ERROR(take_offer());
  Pipe& pipe = *in_.pipe;
  uint32_t& at = in_.at;
  while (!out.empty()) {
    uint32_t there = 0;
    TENON_RETURN_IF_ERROR(wait_for(pipe.written, pipe, [&](uint32_t written) {
      there = written - at;
      return there > 0;
    }));
    if (there > in_.capacity) return failed("the other end wrote where it must not");
    const uint32_t place = at % in_.capacity;
    const auto count = static_cast<uint32_t>(
        std::min<size_t>({out.size(), there, in_.capacity - place, kPieceBytes}));
    std::memcpy(out.data(), in_.bytes + place, count);
    out = out.subspan(count);
    at += count;
    pipe.read.value.store(at);
    if (pipe.read.sleeps.load() != 0) wake(pipe.read.value);
  }
  return {};
}

Status MemoryStream::write(std::span<const std::byte> bytes) {
  Pipe& pipe = *out_.pipe;
  uint32_t& at = out_.at;
  while (!bytes.empty()) {
    uint32_t used = 0;
    TENON_RETURN_IF_ERROR(wait_for(pipe.read, pipe, [&](uint32_t read) {
      used = at - read;
      return used != out_.capacity;
    }));
    if (used > out_.capacity) return failed("the other end read what is not there");
    const uint32_t place = at % out_.capacity;
    const auto count = static_cast<uint32_t>(
        std::min<size_t>({bytes.size(), out_.capacity - used, out_.capacity - place, kPieceBytes}));
    std::memcpy(out_.bytes + place, bytes.data(), count);
    bytes = bytes.subspan(count);
    at += count;
    pipe.written.value.store(at);
    if (pipe.written.sleeps.load() != 0) wake(pipe.written.value);
  }
  return {};
}

Status MemoryStream::write(std::span<const std::byte> first, std::span<const std::byte> second) {
  if (!mapped_) TENON_RETURN_IF_ERROR(take_offer());
  if (out_.pipe->closed.load() != 0) return failed("the other end closed the connection");
  TENON_RETURN_IF_ERROR(write(first));
  return write(second);
}

void MemoryStream::shut_down() {
  stopped_ = true;
  ::shutdown(socket_.get(), SHUT_RDWR);
  if (!mapped_) return;
  for (Pipe* const pipe : {in_.pipe, out_.pipe}) {
    pipe->closed = 1;
    wake(pipe->written.value);
    wake(pipe->read.value);
  }
}

}  // namespace

Result<std::unique_ptr<KvStream>> offer_memory_stream(int socket, int64_t silence_ns) {
  auto stream = std::make_unique<MemoryStream>(socket, silence_ns);
  TENON_RETURN_IF_ERROR(stream->offer());
  return std::unique_ptr<KvStream>(std::move(stream));
}

std::unique_ptr<KvStream> accept_memory_stream(int socket, int64_t silence_ns) {
  return std::make_unique<MemoryStream>(socket, silence_ns);
}

}  // namespace tenon
