#include "core/model/tensor_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "core/base/worker_pool.h"

namespace tenon {
namespace {

// Large enough that a system call is cheap, small enough to stay in a core's cache.
constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

// Rows of one tensor and where they go in the file.
struct Piece {
  const PlacedRows* tensor;
  uint64_t first_row;
  uint64_t rows;
  uint64_t offset;
};

std::vector<Piece> cut(std::span<const PlacedRows> tensors) {
  std::vector<Piece> pieces;
  for (const PlacedRows& tensor : tensors) {
    const uint64_t bytes = std::max<uint64_t>(1, tensor.row_bytes);
    const uint64_t rows = std::max<uint64_t>(1, kPieceBytes / bytes);
    for (uint64_t first = 0; first < tensor.rows; first += rows) {
      const uint64_t count = std::min(rows, tensor.rows - first);
      pieces.push_back({&tensor, first, count, tensor.offset + first * tensor.row_bytes});
    }
  }
  return pieces;
}

// A new file that disappears unless it is kept.
class NewFile {
 public:
  explicit NewFile(std::string path)
      : path_(std::move(path)),
        fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {}
  ~NewFile() {
    if (fd_ < 0) return;
    ::close(fd_);
    if (!kept_) ::unlink(path_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  bool is_open() const { return fd_ >= 0; }
  Status error(std::string_view what) const {
    return failed("cannot " + std::string(what) + " '" + path_ + "': " + std::strerror(errno));
  }
  bool write_at(uint64_t offset, const void* data, uint64_t bytes) const {
    const auto* at = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t written = ::pwrite(fd_, at, bytes, static_cast<off_t>(offset));
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return false;
      at += written;
      offset += static_cast<uint64_t>(written);
      bytes -= static_cast<uint64_t>(written);
    }
    return true;
  }
  bool reserve(uint64_t bytes) const {
    errno = ::posix_fallocate(fd_, 0, static_cast<off_t>(bytes));
    if (errno == 0) return true;
    // Not every file system can; then room is found out while writing.
    if (errno != EOPNOTSUPP && errno != EINVAL) return false;
    return ::ftruncate(fd_, static_cast<off_t>(bytes)) == 0;
  }
  bool keep_as(const std::string& path) {
    kept_ = ::rename(path_.c_str(), path.c_str()) == 0;
    return kept_;
  }

 private:
  std::string path_;
  int fd_;
  bool kept_ = false;
};

Status write_pieces(const NewFile& file, const std::vector<Piece>& pieces, uint64_t file_bytes,
                    const WriteProgress& progress) {
  uint64_t largest = 0;
  for (const Piece& piece : pieces) {
    largest = std::max(largest, piece.rows * piece.tensor->row_bytes);
  }
  TENON_ASSIGN_OR_RETURN(const auto pool, WorkerPool::start({.threads = 0, .pin = false}));
  std::vector<std::vector<std::byte>> buffers(pool->size(), std::vector<std::byte>(largest));
  std::atomic<size_t> next = 0;
  std::atomic<uint64_t> done = 0;
  std::atomic<int> fault = 0;
  pool->run([&](uint32_t worker) noexcept {
    std::byte* buffer = buffers[worker].data();
    for (size_t i = next++; i < pieces.size() && fault == 0; i = next++) {
      const Piece& piece = pieces[i];
      const uint64_t bytes = piece.rows * piece.tensor->row_bytes;
      (*piece.tensor->fill)(piece.first_row, piece.rows, buffer);
      if (!file.write_at(piece.offset, buffer, bytes)) fault = errno;
      done += bytes;
      if (worker == 0 && progress) progress(done, file_bytes);
    }
  });
  errno = fault;
  return fault == 0 ? Status() : file.error("write");
}

}  // namespace

Status write_tensor_file(const std::string& path, std::string_view header,
                         std::span<const PlacedRows> tensors, uint64_t file_bytes,
                         const WriteProgress& progress) {
  NewFile file(path + ".partial");
  if (!file.is_open()) return file.error("create");
  if (!file.reserve(file_bytes)) return file.error("reserve room for");
  if (!file.write_at(0, header.data(), header.size())) return file.error("write");
  TENON_RETURN_IF_ERROR(write_pieces(file, cut(tensors), file_bytes, progress));
  if (!file.keep_as(path)) return file.error("rename");
  if (progress) progress(file_bytes, file_bytes);
  return {};
}

}  // namespace tenon
