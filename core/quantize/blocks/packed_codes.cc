// Codes in words of 32 bits, as GPTQ and AWQ have them.
#include <cstring>

#include "core/base/half.h"
#include "core/quantize/blocks/made_tensor.h"
#include "core/quantize/blocks/row_shares.h"

namespace tenon::quantize {
namespace {

class Words {
 public:
  Words(uint64_t rows, uint64_t columns) : columns_(columns), words_(rows * columns) {}

  void add(uint64_t row, uint64_t column, uint32_t bits) {
    words_[row * columns_ + column] |= bits;
  }
  std::vector<std::byte> bytes() const {
    std::vector<std::byte> out(words_.size() * 4);
    std::memcpy(out.data(), words_.data(), out.size());
    return out;
  }
  MadeTensor tensor(std::string name) const {
    return {std::move(name), DType::i32, {words_.size() / columns_, columns_}, bytes()};
  }

 private:
  uint64_t columns_;
  std::vector<uint32_t> words_;
};

// Adds `code` at bit `at` of a stream whose word i is word(i).
template <typename AddWord>
void add_code(uint32_t code, uint64_t at, uint32_t bits, AddWord add_word) {
  const auto shift = static_cast<uint32_t>(at % 32);
  const uint64_t two = uint64_t{code} << shift;
  add_word(at / 32, static_cast<uint32_t>(two));
  if (shift + bits > 32) add_word(at / 32 + 1, static_cast<uint32_t>(two >> 32));
}

MadeTensor scales_of(std::string name, const CodedMatrix& matrix) {
  const uint64_t groups = matrix.groups();
  MadeTensor out{std::move(name), DType::f16, {groups, matrix.n}, {}};
  out.bytes.resize(groups * matrix.n * 2);
  for (uint64_t group = 0; group < groups; ++group) {
    for (uint64_t row = 0; row < matrix.n; ++row) {
      const uint16_t bits = f16_from_float(matrix.grids[row * groups + group].scale);
      std::memcpy(out.bytes.data() + 2 * (group * matrix.n + row), &bits, 2);
    }
  }
  return out;
}

MadeTensor group_indices(std::string name, const CodedMatrix& matrix) {
  MadeTensor out{std::move(name), DType::i32, {matrix.k}, {}};
  out.bytes.resize(matrix.k * 4);
  std::memcpy(out.bytes.data(), matrix.group_of.data(), out.bytes.size());
  return out;
}

}  // namespace

MadeTensors gptq_tensors(const std::string& stem, const CodedMatrix& matrix, bool second_version,
                         WorkerPool& pool) {
  const uint32_t bits = matrix.options.bits;
  const uint64_t n = matrix.n, k = matrix.k, groups = matrix.groups();
  Words codes(k * bits / 32, n), zeros(groups, n * bits / 32);
  for_each_row(pool, n, [&](uint64_t row) {
    for (uint64_t column = 0; column < k; ++column) {
      add_code(matrix.codes[row * k + column], column * bits, bits,
               [&](uint64_t word, uint32_t value) { codes.add(word, row, value); });
    }
    for (uint64_t group = 0; group < groups; ++group) {
      const uint32_t zero = matrix.grids[row * groups + group].zero;
      const uint32_t stored = second_version ? zero : (zero - 1) & matrix.options.most();
      add_code(stored, row * bits, bits,
               [&](uint64_t word, uint32_t value) { zeros.add(group, word, value); });
    }
  });
  return {codes.tensor(stem + ".qweight"), zeros.tensor(stem + ".qzeros"),
          scales_of(stem + ".scales", matrix), group_indices(stem + ".g_idx", matrix)};
}

MadeTensors awq_tensors(const std::string& stem, const CodedMatrix& matrix, WorkerPool& pool) {
  constexpr uint32_t kNibbles[8] = {0, 4, 1, 5, 2, 6, 3, 7};  // of column c of eight
  const uint64_t n = matrix.n, k = matrix.k, groups = matrix.groups();
  Words codes(k, n / 8), zeros(groups, n / 8);
  for_each_row(pool, n, [&](uint64_t row) {
    const uint32_t shift = 4 * kNibbles[row % 8];
    for (uint64_t column = 0; column < k; ++column) {
      codes.add(column, row / 8, uint32_t{matrix.codes[row * k + column]} << shift);
    }
    for (uint64_t group = 0; group < groups; ++group) {
      zeros.add(group, row / 8, uint32_t{matrix.grids[row * groups + group].zero} << shift);
    }
  });
  return {codes.tensor(stem + ".qweight"), zeros.tensor(stem + ".qzeros"),
          scales_of(stem + ".scales", matrix)};
}

}  // namespace tenon::quantize
