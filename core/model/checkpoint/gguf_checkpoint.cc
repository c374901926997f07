#include "core/model/checkpoint/gguf_checkpoint.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <set>

#include "core/base/log.h"
#include "core/base/quote.h"
#include "core/files/gguf_parts.h"
#include "core/files/git_lfs.h"
#include "core/hub/not_a_model.h"
#include "core/model/blocks/block.h"
#include "core/model/checkpoint/gguf_lists.h"
#include "core/model/checkpoint/gguf_order.h"
#include "core/model/families/family.h"
#include "core/model/formats/quant_format.h"
#include "core/model/tensors/tensor_values.h"

namespace tenon {
namespace {

constexpr uint32_t kGgufI64 = 27;

std::optional<DType> plain_dtype(uint32_t type) {
  if (type == kGgufF32) return DType::f32;
  if (type == kGgufF16) return DType::f16;
  if (type == kGgufBf16) return DType::bf16;
  // Ids of tokens, which heads have.
  if (type == kGgufI64) return DType::i64;
  return std::nullopt;
}

// A tensor of the file. `fault` says why it has no view, empty when it has one.
struct Entry {
  TensorView view;
  std::string format;  // "q8_0"; empty when plain
  std::string fault;
  std::span<const uint32_t> row_order;
  std::span<const int32_t> column_order;
  std::unique_ptr<std::byte[]> copy;  // of a tensor whose rows or columns were put in order
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

// The extents without leading ones.
std::vector<uint64_t> without_ones(std::span<const uint64_t> extents) {
  const auto first = std::ranges::find_if(extents, [](uint64_t extent) { return extent != 1; });
  return {first, extents.end()};
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
  // NVFP4 becomes blocks of a format once the matrix's factor is at hand (published/float4.cc).
  const bool known =
      type != nullptr && (find_quant_format(type->name) != nullptr || type->name == kGgufNvFp4);
  if (!known) {
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

// Puts the rows in that order, in a copy.
void put_rows_in_order(Entry& entry, std::span<const uint32_t> order) {
  const std::span<const std::byte> from = bytes_of(entry.view);
  const uint64_t bytes = from.size() / order.size();
  entry.copy = std::make_unique_for_overwrite<std::byte[]>(from.size());
  for (size_t i = 0; i < order.size(); ++i) {
    std::memcpy(entry.copy.get() + i * bytes, from.data() + order[i] * bytes, bytes);
  }
  entry.view.data = entry.copy.get();
}

// The same with the columns of a plain matrix.
void put_columns_in_order(Entry& entry, std::span<const uint32_t> order) {
  const std::span<const std::byte> from = bytes_of(entry.view);
  const uint64_t bytes = dtype_bits(entry.view.dtype) / 8, columns = order.size();
  entry.copy = std::make_unique_for_overwrite<std::byte[]>(from.size());
  for (uint64_t at = 0; at < from.size() / bytes; at += columns) {
    for (uint64_t i = 0; i < columns; ++i) {
      std::memcpy(entry.copy.get() + (at + i) * bytes, from.data() + (at + order[i]) * bytes,
                  bytes);
    }
  }
  entry.view.data = entry.copy.get();
}

class GgufCheckpoint final : public Checkpoint {
 public:
  GgufCheckpoint(GgufParts files, std::string path, const ModelPlan& plan)
      : files_(std::move(files)), path_(std::move(path)), names_(plan) {
    std::set<std::string> needed;
    for (const TensorSpec& spec : list_tensors(plan)) needed.insert(spec.name);
    for (const GgufTensor& tensor : files_.file().tensors()) {
      Entry entry = make_entry(tensor, files_.bytes_of(tensor).data());
      if (is_single_row(tensor)) set_shape(entry.view, std::array{uint64_t{1}, tensor.extents[0]});
      // The second spelling of one tensor has no place in the model, and keeps its own name.
      const auto [at, first] = entries_.try_emplace(name_of_stored(tensor.name, needed));
      if (first) {
        at->second = std::move(entry);
      } else {
        entries_.emplace(tensor.name, std::move(entry));
      }
    }
  }

  // ggml does not tell a vector from a matrix of one row, which converters write now and then.
  void drop_ones(const ModelPlan& plan) {
    for (const TensorSpec& spec : list_tensors(plan)) {
      const auto found = entries_.find(spec.name);
      if (found == entries_.end() || spec.columns > 0 || spec.experts > 0) continue;
      TensorView& view = found->second.view;
      std::vector<uint64_t> expected = spec.stored_shape;
      if (expected.empty()) expected = {spec.rows};
      if (without_ones({view.shape, view.rank}) == without_ones(expected)) {
        set_shape(view, expected);
      }
    }
  }

  // Numbers that stand in lists of all layers become tensors. A list of another length is none, so
  // that its tensors are missed.
  void take_lists(const ModelPlan& plan) {
    for (const TensorSpec& spec : list_tensors(plan)) {
      const std::string_view key = gguf_list_key(spec.role);
      const GgufValue* list = key.empty() ? nullptr : files_.file().find(key);
      const auto numbers = list != nullptr ? list->reals() : std::nullopt;
      if (!numbers || numbers->size() != plan.layers.size()) continue;
      Entry entry;
      entry.copy = std::make_unique_for_overwrite<std::byte[]>(sizeof(float));
      std::memcpy(entry.copy.get(), &(*numbers)[static_cast<size_t>(spec.layer)], sizeof(float));
      entry.view.data = entry.copy.get();
      entry.view.dtype = DType::f32;
      set_shape(entry.view, std::array{uint64_t{1}});
      entries_.emplace(spec.name, std::move(entry));
    }
  }

  // Gives rows and columns the order that they have in folders.
  void put_in_order(const ModelPlan& plan) {
    const Family& family = family_of(plan);
    for (uint32_t layer = 0; layer < plan.layers.size(); ++layer) {
      const LayerPlan& own = plan.layers[layer];
      for (const Block* block : layer_blocks()) {
        if (!block->is_in(own)) continue;
        for (const BlockTensor& tensor : block->tensors) {
          if (!names_.has(tensor.role)) continue;
          const auto index = static_cast<int32_t>(layer);
          if (auto rows = gguf_row_order(family, own, tensor.role); !rows.empty()) {
            const std::vector<uint32_t>& order = *row_orders_.insert(std::move(rows)).first;
            for (const bool bias : {false, true}) {
              order_rows(names_.full(tensor.role, index, bias), tensor, order);
            }
          }
          if (const auto columns = gguf_column_order(family, own, tensor.role); !columns.empty()) {
            order_columns(names_.full(tensor.role, index, false), columns);
          }
        }
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
  std::span<const int32_t> column_order(std::string_view name) const override {
    const auto found = entries_.find(name);
    return found == entries_.end() ? std::span<const int32_t>() : found->second.column_order;
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
  // llama.cpp leaves out what kind two tensors are, in files of two architectures; both spellings
  // are read in all. `needed`: the names of the model's tensors.
  std::string name_of_stored(const std::string& stored, const std::set<std::string>& needed) const {
    std::string own = names_.name_of_stored(stored);
    if (needed.contains(own)) return own;
    for (const auto& [stem, kind] :
         {std::pair<std::string, std::string>(".ffn_norm", ".weight"), {".exp_probs_b", ".bias"}}) {
      std::string other = stored + kind;
      if (stored.ends_with(stem + kind)) {
        other = stored.substr(0, stored.size() - kind.size());
      } else if (!stored.ends_with(stem)) {
        continue;
      }
      std::string name = names_.name_of_stored(other);
      if (needed.contains(name)) return name;
    }
    return own;
  }
  // One of another shape stays as it is: it is refused where the model is put together.
  void order_rows(const std::string& name, const BlockTensor& tensor,
                  const std::vector<uint32_t>& order) {
    const auto found = entries_.find(name);
    if (found == entries_.end() || !found->second.fault.empty()) return;
    Entry& entry = found->second;
    if (entry.view.rank > 2 || entry.view.shape[0] != order.size() || entry.copy) return;
    const bool numbers = entry.view.rank == 1 || tensor.in_layer.vector != nullptr;
    if (numbers) return put_rows_in_order(entry, order);
    entry.row_order = order;
  }
  void order_columns(const std::string& name, const std::vector<uint32_t>& order) {
    const auto found = entries_.find(name);
    if (found == entries_.end() || !found->second.fault.empty()) return;
    Entry& entry = found->second;
    if (entry.view.rank != 2) return;
    if (entry.format.empty()) {
      if (entry.view.shape[1] == order.size()) put_columns_in_order(entry, order);
      return;
    }
    std::vector<int32_t> belongs(order.size());
    for (uint32_t n = 0; n < order.size(); ++n) belongs[order[n]] = static_cast<int32_t>(n);
    entry.column_order = *column_orders_.insert(std::move(belongs)).first;
  }

  GgufParts files_;
  std::string path_;  // as it was given, for messages
  TensorNames names_;
  std::set<std::vector<uint32_t>> row_orders_;  // each once
  std::set<std::vector<int32_t>> column_orders_;
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

std::unique_ptr<Checkpoint> in_order(GgufParts files, const std::string& path,
                                     const ModelPlan& plan) {
  auto checkpoint = std::make_unique<GgufCheckpoint>(std::move(files), path, plan);
  checkpoint->drop_ones(plan);
  checkpoint->put_in_order(plan);
  checkpoint->take_lists(plan);
  return checkpoint;
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
    return no_model_file(path);
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
  opened.checkpoint = in_order(std::move(files), path, opened.config.plan);
  return opened;
} catch (const std::bad_alloc&) {
  return out_of_memory(path + ": there is no memory for the order of its rows");
}

Result<std::unique_ptr<Checkpoint>> open_gguf_tensors(const std::string& path,
                                                      const ModelPlan& plan) try {
  TENON_ASSIGN_OR_RETURN(GgufParts files, GgufParts::open(path));
  return in_order(std::move(files), path, plan);
} catch (const std::bad_alloc&) {
  return out_of_memory(path + ": there is no memory for the order of its rows");
}

}  // namespace tenon
