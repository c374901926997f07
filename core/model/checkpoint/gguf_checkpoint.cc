#include "core/model/checkpoint/gguf_checkpoint.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>

#include "core/base/log.h"
#include "core/base/quote.h"
#include "core/files/gguf_parts.h"
#include "core/files/git_lfs.h"
#include "core/model/families/family.h"
#include "core/model/formats/quant_format.h"
#include "core/model/tensors/tensor_values.h"

namespace tenon {
namespace {

std::optional<DType> plain_dtype(uint32_t type) {
  if (type == kGgufF32) return DType::f32;
  if (type == kGgufF16) return DType::f16;
  if (type == kGgufBf16) return DType::bf16;
  return std::nullopt;
}

// A tensor of the file. `fault` says why it has no view, empty when it has one.
struct Entry {
  TensorView view;
  std::string format;  // "q8_0"; empty when plain
  std::string fault;
  std::span<const uint32_t> row_order;
  std::unique_ptr<std::byte[]> copy;  // of a vector whose values were put in order
};

void set_shape(TensorView& view, std::span<const uint64_t> extents) {
  view.rank = static_cast<uint8_t>(extents.size());
  uint64_t stride = 1;
  for (size_t i = extents.size(); i-- > 0;) {
    view.shape[i] = extents[i];
    view.stride[i] = stride;
    stride *= extents[i];
  }
}

Entry make_entry(const GgufTensor& tensor, const std::byte* data) {
  Entry entry;
  entry.view.data = data;
  if (const std::optional<DType> dtype = plain_dtype(tensor.type)) {
    entry.view.dtype = *dtype;
    set_shape(entry.view, tensor.extents);
    return entry;
  }
  const TensorType* type = find_tensor_type(tensor.type);
  if (type == nullptr || find_quant_format(type->name) == nullptr) {
    entry.fault = "is stored as " + tensor_type_name(tensor.type) +
                  ", which is not built; there are " + weight_formats_text();
    return entry;
  }
  const size_t rank = tensor.extents.size();
  if (rank != 2 && rank != 3) {
    entry.fault = "is stored as " + std::string(type->name) + " with " + std::to_string(rank) +
                  " dimensions; only matrices are read, and those of experts";
    return entry;
  }
  entry.format = type->name;
  entry.view.dtype = DType::u8;
  std::vector<uint64_t> extents = tensor.extents;
  extents.back() = extents.back() / type->block_elements * type->block_bytes;
  set_shape(entry.view, extents);
  return entry;
}

// A matrix of one row is stored as a vector: the score of a shared expert.
bool is_single_row(const GgufTensor& tensor) {
  return tensor.extents.size() == 1 && tensor.name.ends_with(".ffn_gate_inp_shexp.weight");
}

// Where the rows of `heads` heads stand whose halves are interleaved: 0, 2, 4, …, 1, 3, 5, … of
// each.
std::vector<uint32_t> paired_order(uint32_t heads, uint32_t head_dim) {
  std::vector<uint32_t> order(size_t{heads} * head_dim);
  const uint32_t half = head_dim / 2;
  for (uint32_t row = 0; row < order.size(); ++row) {
    const uint32_t at = row % head_dim;
    order[row] = row - at + (at < half ? 2 * at : 2 * (at - half) + 1);
  }
  return order;
}

// Puts the values of a vector in that order, in a copy.
void put_in_order(Entry& entry, std::span<const uint32_t> order) {
  const std::span<const std::byte> from = bytes_of(entry.view);
  const uint64_t bytes = from.size() / order.size();
  entry.copy = std::make_unique_for_overwrite<std::byte[]>(from.size());
  for (size_t i = 0; i < order.size(); ++i) {
    std::memcpy(entry.copy.get() + i * bytes, from.data() + order[i] * bytes, bytes);
  }
  entry.view.data = entry.copy.get();
}

class GgufCheckpoint final : public Checkpoint {
 public:
  GgufCheckpoint(GgufParts files, std::string path, const ModelPlan& plan)
      : files_(std::move(files)), path_(std::move(path)), names_(plan) {
    for (const GgufTensor& tensor : files_.file().tensors()) {
      Entry entry = make_entry(tensor, files_.bytes_of(tensor).data());
      if (is_single_row(tensor)) set_shape(entry.view, std::array{uint64_t{1}, tensor.extents[0]});
      entries_.emplace(names_.name_of_stored(tensor.name), std::move(entry));
    }
  }

  // Of layers that all have the same heads.
  void order_rows(const ModelPlan& plan) {
    for (uint32_t layer = 0; layer < plan.layers.size(); ++layer) {
      const SelfAttentionPlan& attention = plan.layers[layer].attention;
      const auto index = static_cast<int32_t>(layer);
      for (const char* kind : {".weight", ".bias"}) {
        order_rows(names_.stem(Role::q, index) + kind, attention.heads, attention.head_dim,
                   q_order_);
        order_rows(names_.stem(Role::k, index) + kind, attention.kv_heads, attention.head_dim,
                   k_order_);
      }
    }
  }

  const TensorView* find(std::string_view name) const override {
    const auto found = entries_.find(name);
    return found == entries_.end() || !found->second.fault.empty() ? nullptr : &found->second.view;
  }
  Result<const TensorView*> get(std::string_view name) const override {
    const auto found = entries_.find(name);
    const std::string where = path_ + ": tensor " + in_quotes(stored_name(name)) + " ";
    if (found == entries_.end()) return not_found(where + "is missing");
    if (!found->second.fault.empty()) return unsupported(where + found->second.fault);
    return &found->second.view;
  }
  std::string_view quant_format(std::string_view name) const override {
    const auto found = entries_.find(name);
    return found == entries_.end() ? std::string_view() : found->second.format;
  }
  std::span<const uint32_t> row_order(std::string_view name) const override {
    const auto found = entries_.find(name);
    return found == entries_.end() ? std::span<const uint32_t>() : found->second.row_order;
  }
  std::string stored_name(std::string_view name) const override { return names_.stored(name); }
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, entry] : entries_) names.push_back(name);
    return names;
  }
  void release(const TensorView& tensor) const override {
    // Pages belong to one of the files; a copy belongs to none.
    const std::span<const std::byte> bytes = bytes_of(tensor);
    for (const MappedFile& part : files_.parts()) {
      const std::span<const std::byte> all = part.bytes();
      const bool inside = !std::less<>()(bytes.data(), all.data()) &&
                          !std::less<>()(all.data() + all.size(), bytes.data() + bytes.size());
      if (inside) return part.release(bytes);
    }
  }

 private:
  // One of another shape stays as it is: it is refused where the model is put together.
  void order_rows(const std::string& name, uint32_t heads, uint32_t head_dim,
                  std::vector<uint32_t>& order) {
    const auto found = entries_.find(name);
    if (found == entries_.end() || !found->second.fault.empty()) return;
    Entry& entry = found->second;
    if (entry.view.rank > 2 || entry.view.shape[0] != uint64_t{heads} * head_dim) return;
    if (order.empty()) order = paired_order(heads, head_dim);
    if (entry.view.rank == 1) return put_in_order(entry, order);
    entry.row_order = order;
  }

  GgufParts files_;
  std::string path_;  // as it was given, for messages
  TensorNames names_;
  std::vector<uint32_t> q_order_, k_order_;  // empty: rows stand in order
  std::map<std::string, Entry, std::less<>> entries_;
};

// Such a file was appended to, or bytes were put into it, and every tensor after them is wrong.
void warn_of_rest(const GgufParts& files) {
  const uint64_t alignment = files.file().alignment();
  std::vector<uint64_t> ends(files.parts().size(), 0);
  for (const GgufTensor& tensor : files.file().tensors()) {
    if (!tensor.bytes) return;
    ends[tensor.part] = std::max(ends[tensor.part], tensor.begin + *tensor.bytes);
  }
  for (size_t part = 0; part < ends.size(); ++part) {
    const MappedFile& file = files.parts()[part];
    const uint64_t end = (ends[part] + alignment - 1) / alignment * alignment;
    if (end == 0 || file.bytes().size() <= end) continue;
    log(LogLevel::warning, "model",
        file.path() + ": the last " + std::to_string(file.bytes().size() - end) +
            " bytes belong to no tensor; the file may be damaged");
  }
}

}  // namespace

bool is_model_file(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

Result<OpenedGguf> open_gguf(const std::string& path) try {
  TENON_ASSIGN_OR_RETURN(const MappedFile given, MappedFile::open(path));
  if (const Status status = check_no_git_lfs_pointer(given.bytes()); !status.ok()) {
    return with_context(path, status);
  }
  if (!GgufFile::has_magic(given.bytes())) {
    return invalid_argument(path + ": is no GGUF file; expected one, or a model's folder");
  }
  TENON_ASSIGN_OR_RETURN(GgufParts files, GgufParts::open(path));
  const GgufBytes bytes = [&files](const GgufTensor& tensor) { return files.bytes_of(tensor); };
  OpenedGguf opened;
  TENON_ASSIGN_OR_RETURN(opened.config, gguf_model_config(files.file(), bytes, path));
  TENON_ASSIGN_OR_RETURN(opened.generation, gguf_generation_defaults(files.file(), path));
  if (const GgufValue* text = files.file().find("tenon.generation_config")) {
    opened.generation_json = text->text().value_or("");
  }
  warn_of_rest(files);
  const Family& family = family_of(opened.config.plan);
  auto checkpoint = std::make_unique<GgufCheckpoint>(std::move(files), path, opened.config.plan);
  if (family.gguf_pairs_rows) checkpoint->order_rows(opened.config.plan);
  opened.checkpoint = std::move(checkpoint);
  return opened;
} catch (const std::bad_alloc&) {
  return out_of_memory(path + ": there is no memory for the order of the rows of q and k");
}

}  // namespace tenon
