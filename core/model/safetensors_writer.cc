#include "core/model/safetensors_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/base/worker_pool.h"
#include "core/model/safetensors.h"

namespace tenon {
namespace {

// Large enough that a system call is cheap, small enough to stay in a core's cache.
constexpr uint64_t kPieceBytes = uint64_t{1} << 20;

uint64_t row_bytes(const PlannedTensor& tensor) {
  const uint64_t columns = tensor.shape.size() == 2 ? tensor.shape[1] : 1;
  return columns * dtype_bits(tensor.dtype) / 8;
}

// Rows of one tensor and where they go in the file.
struct Piece {
  const PlannedTensor* tensor;
  uint64_t first_row;
  uint64_t rows;
  uint64_t offset;
};

struct Layout {
  std::string header;  // with its length in front
  std::vector<Piece> pieces;
  uint64_t file_bytes = 0;
  uint64_t largest_piece = 0;
};

Layout lay_out(std::span<const PlannedTensor> tensors) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{"format", "pt"}};
  uint64_t offset = 0;
  for (const PlannedTensor& tensor : tensors) {
    const uint64_t bytes = tensor.shape[0] * row_bytes(tensor);
    header[tensor.name] = {{"dtype", safetensors_dtype_name(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  Layout layout;
  std::string text = header.dump();
  // Blanks behind the JSON are allowed; they align the data, so that views can be read in place.
  text.append(63 - (8 + text.size() + 63) % 64, ' ');
  const uint64_t length = text.size();
  layout.header.resize(8);
  std::memcpy(layout.header.data(), &length, 8);
  layout.header += text;
  offset = layout.header.size();
  for (const PlannedTensor& tensor : tensors) {
    const uint64_t bytes = row_bytes(tensor);
    const uint64_t rows = std::max<uint64_t>(1, kPieceBytes / std::max<uint64_t>(1, bytes));
    for (uint64_t first = 0; first < tensor.shape[0]; first += rows) {
      const uint64_t count = std::min(rows, tensor.shape[0] - first);
      layout.pieces.push_back({&tensor, first, count, offset});
      layout.largest_piece = std::max(layout.largest_piece, count * bytes);
      offset += count * bytes;
    }
  }
  layout.file_bytes = offset;
  return layout;
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
    // Not every file system can; then room is found out while writing.
    return errno == 0 || errno == EOPNOTSUPP || errno == EINVAL;
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

Status write_pieces(const NewFile& file, const Layout& layout, const WriteProgress& progress) {
  TENON_ASSIGN_OR_RETURN(const auto pool, WorkerPool::start({.threads = 0, .pin = false}));
  std::vector<std::vector<std::byte>> buffers(pool->size(),
                                              std::vector<std::byte>(layout.largest_piece));
  std::atomic<size_t> next = 0;
  std::atomic<uint64_t> done = 0;
  std::atomic<int> fault = 0;
  pool->run([&](uint32_t worker) noexcept {
    std::byte* buffer = buffers[worker].data();
    for (size_t i = next++; i < layout.pieces.size() && fault == 0; i = next++) {
      const Piece& piece = layout.pieces[i];
      const uint64_t bytes = piece.rows * row_bytes(*piece.tensor);
      piece.tensor->fill(piece.first_row, piece.rows, buffer);
      if (!file.write_at(piece.offset, buffer, bytes)) fault = errno;
      done += bytes;
      if (worker == 0 && progress) progress(done, layout.file_bytes);
    }
  });
  errno = fault;
  return fault == 0 ? Status() : file.error("write");
}

}  // namespace

Status write_safetensors(const std::string& path, std::span<const PlannedTensor> tensors,
                         const WriteProgress& progress) {
  const Layout layout = lay_out(tensors);
  NewFile file(path + ".partial");
  if (!file.is_open()) return file.error("create");
  if (!file.reserve(layout.file_bytes)) return file.error("reserve room for");
  if (!file.write_at(0, layout.header.data(), layout.header.size())) return file.error("write");
  TENON_RETURN_IF_ERROR(write_pieces(file, layout, progress));
  if (!file.keep_as(path)) return file.error("rename");
  if (progress) progress(layout.file_bytes, layout.file_bytes);
  return {};
}

}  // namespace tenon
