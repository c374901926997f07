// Readers of quantised checkpoints as tools publish them (docs/formats/published-weights.md): one
// for each way that a config.json's quantization_config names.
#pragma once

#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/checkpoint/checkpoint.h"
#include "core/model/config/json_fields.h"
#include "core/model/published/matrix.h"

namespace tenon::published {

// The tensors of one quantised matrix. Every error names the tensor.
class Tensors {
 public:
  Tensors(const Checkpoint& checkpoint, std::string stem)
      : checkpoint_(checkpoint), stem_(std::move(stem)) {}

  const std::string& stem() const { return stem_; }
  std::string name(std::string_view suffix) const { return stem_ + std::string(suffix); }
  bool has(std::string_view suffix) const { return checkpoint_.find(name(suffix)) != nullptr; }
  // Null where there is none.
  const TensorView* find(std::string_view suffix) const { return checkpoint_.find(name(suffix)); }
  // Of one of these element types, and of so many dimensions. Errors: not_found, unsupported.
  Result<const TensorView*> get(std::string_view suffix, std::initializer_list<DType> types,
                                uint32_t rank) const;
  // … and of these extents.
  Result<const TensorView*> get(std::string_view suffix, std::initializer_list<DType> types,
                                std::initializer_list<uint64_t> shape) const;
  // "tensor 'STEM.suffix' FOUND".
  Status refuse(std::string_view suffix, std::string_view found) const;

 private:
  const Checkpoint& checkpoint_;
  std::string stem_;
};

// The element types that scales may have.
inline constexpr std::initializer_list<DType> kRealTypes = {DType::f32, DType::f16, DType::bf16};

class Reader {
 public:
  virtual ~Reader() = default;
  // After the stem, of the tensor that a quantised matrix has and no other; one of these.
  virtual std::vector<std::string_view> main_suffixes() const = 0;
  // Whether a tensor with that suffix is a quantised one, by its elements.
  virtual bool is_quantised(const TensorView&) const { return true; }
  // What the checkpoint says of its format (Checkpoint::quant_format); folders say nothing.
  virtual std::string_view stored_format() const { return {}; }
  // Of the tensors beside it.
  virtual std::vector<std::string_view> other_suffixes() const = 0;
  // After the stem, of the matrix that the model knows.
  virtual std::string_view matrix_suffix() const { return ".weight"; }
  virtual Result<Matrix> read(const Tensors& tensors) const = 0;
};

// `config`: a quantization_config. Null, with faults, where it cannot be read.
std::unique_ptr<Reader> make_reader(const JsonFields& config);

// The text of a config.json, with what ModelOpt says of the weights in the folder's
// hf_quant_config.json, where there is such a file and config.json says nothing of it. Errors: as
// of reading a file; invalid_argument and unsupported, with the file's name.
Result<std::string> with_modelopt_config(std::string config, const std::string& folder);

// GPTQModel names the method a second time; a fault where it is another one.
void check_method_key(const JsonFields& config, std::string_view method);

// E4M3 with scales of the whole, of rows or of blocks: compressed-tensors has it too.
struct BlockShape {
  uint64_t rows = 0, columns = 0;
  bool operator==(const BlockShape&) const = default;
};
// How many scales the config says a matrix has; `any`: it does not say, and their number tells.
enum class ScaleCount : uint8_t { any, one, rows };
Result<Matrix> read_float8(const Tensors& tensors, std::string_view scale_suffix,
                           std::optional<BlockShape> block, ScaleCount count);

// MXFP8: E4M3 with ".weight_scale" u8 [n, ceil(k / 32)], exponents of powers of two, plus 127.
Result<Matrix> read_mxfp8(const Tensors& tensors);

// E2M1 in blocks, as compressed-tensors names its formats (float4.cc).
struct Float4 {
  std::string_view format;    // "mxfp4-pack-quantized"
  uint64_t group;             // columns with one scale
  std::string_view strategy;  // what the config calls that
  Result<Matrix> (*read)(const Tensors& tensors);
  std::span<const std::string_view> other_suffixes;  // those that no other format has
};
std::span<const Float4> float4_formats();

// MXFP4 with the codes under `codes_suffix`, and NVFP4 as ModelOpt names its tensors, with a scale
// for so many columns: 16 or 32.
Result<Matrix> read_mxfp4(const Tensors& tensors, std::string_view codes_suffix);
Result<Matrix> read_modelopt_nvfp4(const Tensors& tensors, uint64_t columns);

// Whole numbers of 8 bits under ".weight". `scales`: one, or [n, ceil(k / group)]; group 0: a row.
Result<Matrix> read_int8(const Tensors& tensors, const TensorView& scales, uint64_t group);

// Matrices of GGUF files that have the type NVFP4.
std::unique_ptr<Reader> make_gguf_nvfp4();

// Element [row, column] of a matrix without gaps, at any alignment.
int32_t word_at(const TensorView& view, uint64_t row, uint64_t column);

// What the config says of act-order: whether columns may belong to groups out of turn.
struct OrderClaim {
  enum class Said : uint8_t { nothing, in_turn, out_of_turn };
  Said said = Said::nothing;
  std::string_view words;  // "'desc_act' is true"
};
// The group of each column as a matrix of groups of `group` has it. Errors name `suffix`: it is
// missing though the config says that columns are out of turn, or says so though the config denies
// it, or is missing where the last group may be partial or not.
struct ColumnGroups {
  std::vector<int32_t> order;  // empty: in turn
};
Result<ColumnGroups> read_column_groups(const Tensors& tensors, std::string_view suffix,
                                        uint64_t k_in, uint64_t group, const OrderClaim& claim);
// The two extents that a tensor of whole numbers holds.
struct Extents {
  uint64_t n = 0, k = 0;
};
Result<Extents> read_extents(const Tensors& tensors, std::string_view suffix);
bool is_all_zero(const TensorView& view);

// `checkpoint` with its quantised matrices under the names and in the formats that models know.
Result<std::unique_ptr<Checkpoint>> published_checkpoint(std::unique_ptr<Checkpoint> checkpoint,
                                                         const Reader& reader);

}  // namespace tenon::published
