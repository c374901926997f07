// A quantised matrix as checkpoints of several tools publish it, in the one way that the rest of
// the program knows: codes with scales for groups of columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/base/threads/worker_pool.h"

namespace tenon::published {

// What a code stands for, times the scale of its group:
//   u2 … u8  the code minus the group's zero point
//   q8       a whole number of 8 bits, in two's complement
//   nf4, fp4 a level of bitsandbytes'
//   f8       E4M3
enum class Codes : uint8_t { u2, u3, u4, u8, q8, nf4, fp4, f8 };

// Of unsigned codes of 2 to 8 bits: those of 5, 6 and 7 take a byte too.
inline Codes unsigned_codes(uint32_t bits) {
  return bits > 4 ? Codes::u8 : static_cast<Codes>(bits - 2);
}

// Rows [first, first + rows) to be filled in.
struct Strip {
  uint64_t first = 0;
  uint64_t rows = 0;
  uint8_t* codes = nullptr;  // [rows][k_in]
  float* scales = nullptr;   // [rows][groups]
  float* zeros = nullptr;    // [rows][groups], zero where nothing is written
};

struct Matrix {
  Codes codes = Codes::u4;
  uint64_t experts = 0;  // above 0: so many matrices of n_out rows, one below the other
  uint64_t n_out = 0;
  uint64_t k_in = 0;
  uint64_t group = 0;               // columns with one scale; the last group may have fewer
  std::vector<int32_t> order = {};  // [k_in]: column i of the strips is x[order[i]]; empty: in turn
  // Called by several threads at once, each with rows of its own; must not throw.
  std::function<void(const Strip&)> fill = nullptr;
  // Where the checkpoint's blocks are those of a format: its name, and in place of `fill` a
  // function that writes rows [first, first + rows) of its blocks, under the same rules; false
  // where a scale is no number.
  std::string_view format = {};
  std::function<bool(uint64_t first, uint64_t rows, std::byte* to)> write = nullptr;

  uint64_t groups() const { return (k_in + group - 1) / group; }
};

// The matrix in blocks of a format of core/model/formats/quant_format.h.
struct Stored {
  std::string format;
  uint64_t row_bytes = 0;
  std::unique_ptr<std::byte[]> bytes;  // [experts][n_out][row_bytes]
  std::vector<int32_t> order;
};
// `name` for messages. Errors: unsupported (columns that fill no block), invalid_argument (scales
// or codes that are no numbers), out_of_memory.
Result<Stored> store(const std::string& name, const Matrix& matrix, WorkerPool& pool);

}  // namespace tenon::published
