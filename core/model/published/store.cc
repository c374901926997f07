#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <new>

#include "core/base/half.h"
#include "core/base/quote.h"
#include "core/model/formats/quant_format.h"
#include "core/model/published/matrix.h"

namespace tenon::published {
namespace {

constexpr uint64_t kStripRows = 32;

struct CodeRow {
  std::string_view name;  // of the format, without the length of its blocks
  uint32_t bits;
  uint64_t longest;  // block; 0: the format has one length, and no name for it
};
CodeRow row_for(Codes codes) {
  switch (codes) {
    case Codes::u2:
      return {"u2", 2, 128};
    case Codes::u3:
      return {"u3", 3, 128};
    case Codes::u4:
      return {"u4", 4, 128};
    case Codes::u8:
      return {"u8", 8, 128};
    case Codes::q8:
      return {"q8_0", 8, 0};
    case Codes::nf4:
      return {"nf4", 4, 64};
    case Codes::fp4:
      return {"fp4", 4, 64};
    case Codes::f8:
      break;
  }
  return {"f8", 8, 128};
}

// The longest blocks that no group ends in; 0: there are none.
uint64_t block_values(const Matrix& matrix, uint64_t longest) {
  for (uint64_t values = longest == 0 ? 32 : longest; values >= 32; values /= 2) {
    const bool alone = matrix.group >= matrix.k_in;
    if (matrix.k_in % values == 0 && (alone || matrix.group % values == 0)) return values;
  }
  return 0;
}

void put_codes(uint32_t bits, const uint8_t* codes, std::byte* to) {
  std::memset(to, 0, 4 * bits);
  for (uint32_t i = 0; i < 32; ++i) {
    const uint32_t code = codes[i];
    const auto add = [to](uint32_t at, uint32_t value) { to[at] |= static_cast<std::byte>(value); };
    if (bits == 8) {
      add(i, code);
    } else if (bits == 4) {
      add(i % 16, code << (i / 16 * 4));
    } else {
      add(i % 8, (code & 3) << (i / 8 * 2));
      if (bits == 3) add(8 + i / 8, code >> 2 << (i % 8));
    }
  }
}

// What was wrong anywhere, of which the first is told.
enum class Wrong : uint8_t { nothing, scale, zero, code };

class Writer {
 public:
  Writer(const Matrix& matrix, uint64_t values, uint64_t block_bytes, std::byte* out)
      : matrix_(matrix),
        row_(row_for(matrix.codes)),
        values_(values),
        block_bytes_(block_bytes),
        out_(out) {}

  void write(const Strip& strip) {
    for (uint64_t r = 0; r < strip.rows; ++r) {
      const uint8_t* codes = strip.codes + r * matrix_.k_in;
      std::byte* to = out_ + (strip.first + r) * (matrix_.k_in / values_) * block_bytes_;
      for (uint64_t k = 0; k < matrix_.k_in; k += values_, to += block_bytes_) {
        const uint64_t group = r * matrix_.groups() + k / matrix_.group;
        std::byte* behind = put_header(strip.scales[group], strip.zeros[group], to);
        for (uint64_t i = 0; i < values_; i += 32, behind += 4 * row_.bits) {
          put_codes(row_.bits, codes + k + i, behind);
        }
        if (matrix_.codes == Codes::f8) check_float8(codes + k);
      }
    }
  }
  Wrong wrong() const { return wrong_; }

 private:
  std::byte* put_half(float value, Wrong otherwise, std::byte* to) {
    const uint16_t bits = f16_from_float(value);
    if (!std::isfinite(float_from_f16(bits))) wrong_ = otherwise;
    std::memcpy(to, &bits, 2);
    return to + 2;
  }
  std::byte* put_header(float scale, float zero, std::byte* to) {
    if (matrix_.codes == Codes::f8) {
      if (!std::isfinite(scale)) wrong_ = Wrong::scale;
      std::memcpy(to, &scale, 4);
      return to + 4;
    }
    to = put_half(scale, Wrong::scale, to);
    return matrix_.codes <= Codes::u8 ? put_half(zero, Wrong::zero, to) : to;
  }
  void check_float8(const uint8_t* codes) {
    for (uint64_t i = 0; i < values_; ++i) {
      if ((codes[i] & 0x7f) == 0x7f) wrong_ = Wrong::code;
    }
  }

  const Matrix& matrix_;
  const CodeRow row_;
  const uint64_t values_, block_bytes_;
  std::byte* const out_;
  std::atomic<Wrong> wrong_ = Wrong::nothing;
};

Status status_of(Wrong wrong, const std::string& name) {
  const std::string tensor = "tensor " + in_quotes(name) + " ";
  switch (wrong) {
    case Wrong::nothing:
      return {};
    case Wrong::scale:
      return invalid_argument(tensor +
                              "has a scale that is no number below 65504; the file is damaged");
    case Wrong::zero:
      return invalid_argument(
          tensor + "has a zero point that is no number below 65504; the file is damaged");
    case Wrong::code:
      break;
  }
  return invalid_argument(tensor + "holds values that are no numbers; the file is damaged");
}

// The name of the format that the matrix is stored in.
Result<std::string> format_of(const std::string& name, const Matrix& matrix) {
  const std::string columns =
      "tensor " + in_quotes(name) + " has " + std::to_string(matrix.k_in) + " columns";
  if (matrix.write != nullptr) {
    const uint64_t values = find_quant_format(matrix.format)->elements;
    if (matrix.k_in % values == 0) return std::string(matrix.format);
    return unsupported(columns + "; they must be a multiple of " + std::to_string(values));
  }
  const CodeRow row = row_for(matrix.codes);
  const uint64_t values = block_values(matrix, row.longest);
  if (values == 0) {
    return unsupported(columns + " in groups of " + std::to_string(matrix.group) +
                       "; both must be multiples of 32");
  }
  std::string format(row.name);
  if (row.longest != 0) format += "_" + std::to_string(values);
  return format;
}

// Calls work(worker, first row, rows) for strips of all rows, by all workers.
template <typename Work>
void for_each_strip(WorkerPool& pool, uint64_t rows, Work work) {
  std::atomic<uint64_t> next = 0;
  pool.run([&](uint32_t worker) noexcept {
    for (uint64_t first = next.fetch_add(kStripRows); first < rows;
         first = next.fetch_add(kStripRows)) {
      work(worker, first, std::min(kStripRows, rows - first));
    }
  });
}

Wrong write_codes(const Matrix& matrix, const QuantFormat& format, uint64_t rows, WorkerPool& pool,
                  std::byte* out) {
  Writer writer(matrix, format.elements, format.bytes, out);
  const uint64_t groups = matrix.groups();
  std::vector<std::vector<uint8_t>> codes(pool.size(),
                                          std::vector<uint8_t>(kStripRows * matrix.k_in));
  std::vector<std::vector<float>> scales(pool.size(), std::vector<float>(2 * kStripRows * groups));
  for_each_strip(pool, rows, [&](uint32_t worker, uint64_t first, uint64_t count) {
    float* zeros = scales[worker].data() + kStripRows * groups;
    const Strip strip{first, count, codes[worker].data(), scales[worker].data(), zeros};
    matrix.fill(strip);
    writer.write(strip);
  });
  return writer.wrong();
}

Wrong write_blocks(const Matrix& matrix, uint64_t row_bytes, uint64_t rows, WorkerPool& pool,
                   std::byte* out) {
  std::atomic<bool> numbers = true;
  for_each_strip(pool, rows, [&](uint32_t, uint64_t first, uint64_t count) {
    if (!matrix.write(first, count, out + first * row_bytes)) numbers = false;
  });
  return numbers ? Wrong::nothing : Wrong::scale;
}

}  // namespace

Result<Stored> store(const std::string& name, const Matrix& matrix, WorkerPool& pool) {
  Stored out;
  TENON_ASSIGN_OR_RETURN(out.format, format_of(name, matrix));
  const QuantFormat& format = *find_quant_format(out.format);
  out.row_bytes = format.row_bytes(matrix.k_in);
  out.order = matrix.order;
  const uint64_t rows = matrix.n_out * std::max<uint64_t>(1, matrix.experts);
  out.bytes.reset(new (std::nothrow) std::byte[rows * out.row_bytes]);
  if (out.bytes == nullptr) {
    return out_of_memory("no memory for tensor " + in_quotes(name) + ": " +
                         std::to_string(rows * out.row_bytes) + " bytes");
  }
  TENON_RETURN_IF_ERROR(status_of(
      matrix.write == nullptr ? write_codes(matrix, format, rows, pool, out.bytes.get())
                              : write_blocks(matrix, out.row_bytes, rows, pool, out.bytes.get()),
      name));
  return out;
}

}  // namespace tenon::published
