#include "core/model/checkpoint/tensor_file.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "core/base/files/new_file.h"
#include "core/base/threads/worker_pool.h"

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
  std::atomic<bool> failed = false;
  std::vector<Status> faults(pool->size());
  pool->run([&](uint32_t worker) noexcept {
    std::byte* buffer = buffers[worker].data();
    for (size_t i = next++; i < pieces.size() && !failed; i = next++) {
      const Piece& piece = pieces[i];
      const uint64_t bytes = piece.rows * piece.tensor->row_bytes;
      (*piece.tensor->fill)(piece.first_row, piece.rows, buffer);
      Status written = file.write_at(piece.offset, {reinterpret_cast<const char*>(buffer), bytes});
      if (!written.ok()) {
        faults[worker] = std::move(written);
        failed = true;
      }
      done += bytes;
      if (worker == 0 && progress) progress(done, file_bytes);
    }
  });
  for (Status& fault : faults) {
    if (!fault.ok()) return std::move(fault);
  }
  return {};
}

}  // namespace

Status write_tensor_file(const std::string& path, std::string_view header,
                         std::span<const PlacedRows> tensors, uint64_t file_bytes,
                         const WriteProgress& progress) {
  TENON_ASSIGN_OR_RETURN(NewFile file, NewFile::create(path));
  TENON_RETURN_IF_ERROR(file.reserve(file_bytes));
  TENON_RETURN_IF_ERROR(file.write_at(0, header));
  TENON_RETURN_IF_ERROR(write_pieces(file, cut(tensors), file_bytes, progress));
  TENON_RETURN_IF_ERROR(file.keep(Existing::refuse));
  if (progress) progress(file_bytes, file_bytes);
  return {};
}

}  // namespace tenon
