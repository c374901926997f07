#include "core/model/adapters/adapter.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "core/base/presence.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/model/adapters/peft_config.h"
#include "core/model/families/family.h"
#include "core/model/tensors/tensor_places.h"
#include "core/model/tensors/tensor_taker.h"
#include "core/model/tensors/tensor_values.h"

namespace tenon {
namespace {

constexpr size_t kMaxConfigBytes = size_t{4} << 20;
constexpr size_t kMaxFaults = 5;
constexpr std::string_view kPrefix = "base_model.model.";
constexpr std::string_view kHalfA = ".lora_A.weight", kHalfB = ".lora_B.weight";

// The two halves that the file has for one module.
struct Halves {
  std::string name_a, name_b;  // of the tensors; empty: missing
};

std::string extents(uint64_t rows, uint64_t columns) {
  return "[" + std::to_string(rows) + ", " + std::to_string(columns) + "]";
}

// The matrices of a model by the names of its modules.
class Modules {
 public:
  explicit Modules(const Model& model) : model_(model) {
    for (TensorSpec& spec : list_tensors(model.plan)) {
      constexpr std::string_view kWeight = ".weight";
      if (spec.columns == 0 || !spec.name.ends_with(kWeight)) continue;
      std::string module = spec.name.substr(0, spec.name.size() - kWeight.size());
      all_.emplace(std::move(module), std::move(spec));
    }
  }

  const std::map<std::string, TensorSpec>& all() const { return all_; }

  // Null for a name that is none of the model's. Adapters of bare base models leave the prefix out,
  // those of models with images have one more, and some families have two names for a part.
  const TensorSpec* find(std::string_view module) const {
    const FamilyTensors& names = family_of(model_.plan).tensors;
    std::vector<std::string> ways = {std::string(module), std::string(names.base).append(module)};
    if (!model_.plan.text_part_of.empty()) {
      for (const std::string_view whole :
           {"language_model.model.", "model.language_model.", "language_model."}) {
        if (module.starts_with(whole)) {
          ways.push_back(std::string(names.base).append(module.substr(whole.size())));
        }
      }
    }
    for (const std::string& way : ways) {
      if (const auto found = all_.find(way); found != all_.end()) return &found->second;
      const size_t part = names.newer_part.empty() ? way.npos : way.find(names.newer_part);
      if (part == way.npos) continue;
      const auto found =
          all_.find(std::string(way).replace(part, names.newer_part.size(), names.part));
      if (found != all_.end()) return &found->second;
    }
    return nullptr;
  }

 private:
  const Model& model_;
  std::map<std::string, TensorSpec> all_;
};

class AdapterReader {
 public:
  AdapterReader(const Model& model, const PeftConfig& config, Adapter& adapter)
      : model_(model), config_(config), adapter_(adapter), modules_(model) {}

  Status read() {
    std::map<std::string, Halves> found;  // by module
    for (const std::string& name : adapter_.checkpoint->names()) sort_in(name, found);
    if (found.empty() && faults_.empty()) fault("it has no tensors");
    std::map<const TensorSpec*, std::string> taken;
    for (const auto& [module, halves] : found) {
      const TensorSpec* spec = take(module, halves);
      if (spec == nullptr || taken.emplace(spec, module).second) continue;
      fault("there are tensors of " + in_quotes(module) + " and of " + in_quotes(taken[spec]) +
            ", two names of one matrix; keep one");
    }
    if (faults_.empty()) refuse_missing(taken);
    if (faults_.empty()) return {};
    if (faults_.size() > kMaxFaults) faults_.resize(kMaxFaults);
    return invalid_argument(adapter_.path + (faults_.size() == 1 ? ": " : ":\n  ") +
                            join(faults_, "\n  "));
  }

 private:
  void fault(std::string text) { faults_.push_back(std::move(text)); }

  void sort_in(const std::string& name, std::map<std::string, Halves>& found) {
    const std::string_view half = name.ends_with(kHalfA)   ? kHalfA
                                  : name.ends_with(kHalfB) ? kHalfB
                                                           : std::string_view();
    if (!name.starts_with(kPrefix) || half.empty() || name.size() <= kPrefix.size() + half.size()) {
      return fault("tensor " + in_quotes(name) +
                   " is no lora_A or lora_B of a matrix; expected names such as "
                   "base_model.model.<module>.lora_A.weight alone");
    }
    const std::string module =
        name.substr(kPrefix.size(), name.size() - kPrefix.size() - half.size());
    (half == kHalfA ? found[module].name_a : found[module].name_b) = name;
  }

  // Null with a fault.
  const TensorSpec* take(const std::string& module, const Halves& halves) {
    const std::string shown =
        "tensor " + in_quotes(halves.name_a.empty() ? halves.name_b : halves.name_a);
    const TensorSpec* spec = modules_.find(module);
    if (const std::string reason = refusal(module, spec); !reason.empty()) {
      fault(shown + " " + reason);
      return nullptr;
    }
    if (halves.name_a.empty() || halves.name_b.empty()) {
      fault(shown + " stands alone; expected lora_" + (halves.name_a.empty() ? "A" : "B") +
            " of the same module beside it");
      return nullptr;
    }
    const uint32_t rank = config_.rank_of(module);
    const Weight a = matrix(halves.name_a, rank, spec->columns);
    const Weight b = matrix(halves.name_b, spec->rows, rank);
    if (a.n_out > 0 && b.n_out > 0) put(*spec, a, b, config_.scale_of(module));
    return spec;
  }

  // Why no adapter can be for the module; empty where one can.
  std::string refusal(const std::string& module, const TensorSpec* spec) const {
    if (module.find(".experts") != module.npos) {
      return "is for experts' matrices, whose adapters are not built";
    }
    if (spec == nullptr) return "fits no matrix of the model " + path_in_quotes(model_.path);
    if (!spec->tensor->adapters) {
      return "is for " + in_quotes(spec->name) +
             ", a matrix that adapters cannot change here; there are those of attention, of plain "
             "and gated MLPs, and the first and last of recurrences";
    }
    const bool named = config_.names(module) || config_.names(spec->name);
    if (!named) return "is of a module that 'target_modules' does not name";
    if (spec->layer >= 0 && !config_.has_layer(static_cast<uint32_t>(spec->layer))) {
      return "is of a layer that 'layers_to_transform' does not name";
    }
    return {};
  }

  // Empty with a fault.
  Weight matrix(const std::string& name, uint64_t rows, uint64_t columns) {
    const std::string shown = "tensor " + in_quotes(name);
    Result<const TensorView*> found = adapter_.checkpoint->get(name);
    if (!found.ok()) {
      fault(message_of(found.status()));
      return {};
    }
    const TensorView& view = **found;
    if (view.rank != 2 || view.shape[0] != rows || view.shape[1] != columns) {
      std::vector<std::string> shape;
      for (size_t i = 0; i < view.rank; ++i) shape.push_back(std::to_string(view.shape[i]));
      fault(shown + " is [" + join(shape) + "]; the model and adapter_config.json make it " +
            extents(rows, columns));
      return {};
    }
    const bool plain = is_plain_type(view.dtype);
    if (!plain) {
      fault(shown + " has element type " + std::string(dtype_name(view.dtype)) +
            "; expected f32, f16 or bf16");
      return {};
    }
    return {name,
            std::string(dtype_name(view.dtype)),
            static_cast<uint32_t>(rows),
            static_cast<uint32_t>(columns),
            {view}};
  }

  void put(const TensorSpec& spec, const Weight& a, Weight b, float scale) {
    const Family& family = family_of(model_.plan);
    if (spec.role == Role::qkv && family.tensors.layout == FolderLayout::per_head) {
      put_heads_apart(spec, b);
    }
    const std::vector<ConstTensorPlace> places = places_of(model_, spec);
    if (spec.tensor->pieces != nullptr) return put_in_pieces(places, a, b, scale);
    uint64_t first = 0;
    for (const ConstTensorPlace& place : places) {
      adapter_.matrices.push_back({place.matrix, a, rows_of(b, first, place.rows), scale});
      first += place.rows;
    }
  }

  // Each part of the tensor has rows of B that do not stand one after the other.
  void put_in_pieces(const std::vector<ConstTensorPlace>& places, const Weight& a, const Weight& b,
                     float scale) {
    const TensorView& from = b.parts.front();
    const uint64_t bytes = uint64_t{b.k_in} * dtype_bits(from.dtype) / 8;
    std::map<const Weight*, std::byte*> copies;
    const auto* row = static_cast<const std::byte*>(from.data);
    for (const ConstTensorPlace& place : places) {
      std::byte*& to = copies[place.matrix];
      if (to == nullptr) {
        const uint64_t rows = place.matrix->n_out;
        adapter_.copies.push_back(std::make_unique_for_overwrite<std::byte[]>(rows * bytes));
        to = adapter_.copies.back().get();
        Weight part = rows_of(b, 0, rows);
        part.parts.front().data = to;
        adapter_.matrices.push_back({place.matrix, a, std::move(part), scale});
      }
      std::memcpy(to + place.first * bytes, row, place.rows * bytes);
      row += place.rows * bytes;
    }
  }

  // Rows [first, first + rows) of B.
  static Weight rows_of(const Weight& whole, uint64_t first, uint64_t rows) {
    Weight part = whole;
    part.n_out = static_cast<uint32_t>(rows);
    TensorView& view = part.parts.front();
    view.data = static_cast<const std::byte*>(view.data) +
                first * view.stride[0] * dtype_bits(view.dtype) / 8;
    view.shape[0] = rows;
    return part;
  }

  // B's rows stand as those of the matrix that the checkpoint stores.
  void put_heads_apart(const TensorSpec& spec, Weight& b) {
    const SelfAttentionPlan& attention =
        model_.plan.layers[static_cast<size_t>(spec.layer)].attention;
    TensorView& view = b.parts.front();
    const uint64_t bytes = uint64_t{b.k_in} * dtype_bits(view.dtype) / 8;
    adapter_.copies.push_back(std::make_unique_for_overwrite<std::byte[]>(b.n_out * bytes));
    std::byte* to = adapter_.copies.back().get();
    const auto* from = static_cast<const std::byte*>(view.data);
    for (uint64_t n = 0; n < b.n_out; ++n) {
      std::memcpy(to + n * bytes, from + stored_row_by_head(n, attention) * bytes, bytes);
    }
    view.data = to;
  }

  // Modules that a list names, and that the file says nothing of.
  void refuse_missing(const std::map<const TensorSpec*, std::string>& taken) {
    if (config_.modules.empty() || config_.excludes_modules) return;
    for (const auto& [module, spec] : modules_.all()) {
      const bool wanted = spec.layer >= 0 && spec.experts == 0 && config_.names(module) &&
                          config_.has_layer(static_cast<uint32_t>(spec.layer));
      if (!wanted || taken.contains(&spec)) continue;
      fault("'target_modules' names " + in_quotes(module) +
            ", but there are no lora_A and lora_B of it");
    }
  }

  const Model& model_;
  const PeftConfig& config_;
  Adapter& adapter_;
  Modules modules_;
  std::vector<std::string> faults_;
};

Result<std::unique_ptr<Checkpoint>> open_tensors(const std::string& folder) {
  const std::string path = folder + "/adapter_model.safetensors";
  if (!is_there(path) && is_there(folder + "/adapter_model.bin")) {
    return unsupported(path_in_quotes(folder) +
                       " has its tensors in adapter_model.bin, a format that may run code; save "
                       "them as adapter_model.safetensors first");
  }
  return open_safetensors(path);
}

}  // namespace

const AdapterMatrix* Adapter::find(const Weight& target) const {
  const auto found = std::ranges::find(matrices, &target, &AdapterMatrix::target);
  return found == matrices.end() ? nullptr : &*found;
}

uint64_t Adapter::weight_bytes() const {
  uint64_t bytes = 0;
  for (const AdapterMatrix& matrix : matrices) {
    bytes += bytes_of(matrix.a.parts.front()).size() + bytes_of(matrix.b.parts.front()).size();
  }
  return bytes;
}

Result<std::unique_ptr<Adapter>> open_adapter(const std::string& name, const std::string& folder,
                                              const Model& model) {
  auto adapter = std::make_unique<Adapter>();
  adapter->name = name;
  adapter->path = folder;
  const std::string config_path = folder + "/adapter_config.json";
  TENON_ASSIGN_OR_RETURN(const std::string text, read_text_file(config_path, kMaxConfigBytes));
  TENON_ASSIGN_OR_RETURN(const PeftConfig config, parse_peft_config(text, config_path));
  TENON_ASSIGN_OR_RETURN(adapter->checkpoint, open_tensors(folder));
  TENON_RETURN_IF_ERROR(AdapterReader(model, config, *adapter).read());
  return adapter;
}

}  // namespace tenon
