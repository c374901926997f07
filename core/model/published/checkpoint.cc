#include <algorithm>
#include <map>
#include <set>

#include "core/base/quote.h"
#include "core/model/published/reader.h"

namespace tenon::published {
namespace {

// What K, V and q were rounded by where the checkpoint was made. What the cache holds is the
// pipeline's matter, as what kernels round activations to.
bool is_scale_of_cache(std::string_view name) {
  constexpr std::string_view kSuffixes[] = {".k_scale",      ".v_scale",      ".q_scale",
                                            ".kv_scale",     ".k_zero_point", ".v_zero_point",
                                            ".q_zero_point", ".output_scale"};
  return std::ranges::any_of(kSuffixes, [&](auto suffix) { return name.ends_with(suffix); });
}

class PublishedCheckpoint final : public Checkpoint {
 public:
  explicit PublishedCheckpoint(std::unique_ptr<Checkpoint> inner) : inner_(std::move(inner)) {}

  Status read_all(const Reader& reader) {
    const std::vector<std::string_view> suffixes = reader.main_suffixes();
    std::unique_ptr<WorkerPool> pool;
    for (const std::string& name : inner_->names()) {
      const TensorView* view = inner_->find(name);
      const auto main =
          std::ranges::find_if(suffixes, [&](auto suffix) { return name.ends_with(suffix); });
      if (main == suffixes.end() || view == nullptr || !reader.is_quantised(*view)) continue;
      if (inner_->quant_format(name) != reader.stored_format()) continue;
      if (pool == nullptr) {
        TENON_ASSIGN_OR_RETURN(pool, WorkerPool::start({.threads = 0, .pin = false}));
      }
      TENON_RETURN_IF_ERROR(
          read_one(reader, name, name.substr(0, name.size() - main->size()), *pool));
    }
    return {};
  }

  const TensorView* find(std::string_view name) const override {
    const auto found = matrices_.find(name);
    if (found != matrices_.end()) return &found->second.view;
    return hidden_.contains(name) ? nullptr : inner_->find(name);
  }
  Result<const TensorView*> get(std::string_view name) const override {
    const auto found = matrices_.find(name);
    if (found != matrices_.end()) return &found->second.view;
    return inner_->get(name);
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const std::string& name : inner_->names()) {
      if (!hidden_.contains(name) && !is_scale_of_cache(name)) names.push_back(name);
    }
    for (const auto& [name, matrix] : matrices_) names.push_back(name);
    std::ranges::sort(names);
    return names;
  }
  std::string_view quant_format(std::string_view name) const override {
    const auto found = matrices_.find(name);
    return found == matrices_.end() ? inner_->quant_format(name) : found->second.stored.format;
  }
  // A matrix's rows stand as they were stored.
  std::span<const uint32_t> row_order(std::string_view name) const override {
    const auto found = matrices_.find(name);
    return inner_->row_order(found == matrices_.end() ? name : found->second.name);
  }
  std::span<const int32_t> column_order(std::string_view name) const override {
    const auto found = matrices_.find(name);
    if (found == matrices_.end()) return inner_->column_order(name);
    return found->second.stored.order;
  }
  std::string stored_name(std::string_view name) const override {
    const auto found = matrices_.find(name);
    return inner_->stored_name(found == matrices_.end() ? name : found->second.name);
  }
  // Matrices are memory of this program's own, which nothing would fill again.
  void release(const TensorView& tensor) const override {
    const auto is_own = [&](const auto& entry) {
      const std::byte* begin = entry.second.stored.bytes.get();
      const TensorView& view = entry.second.view;
      const std::byte* end = begin + view.shape[0] * view.stride[0];
      return tensor.data >= begin && tensor.data < end;
    };
    if (std::ranges::none_of(matrices_, is_own)) inner_->release(tensor);
  }

 private:
  struct Entry {
    std::string name;  // of its main tensor
    Stored stored;
    TensorView view;
  };

  Status read_one(const Reader& reader, const std::string& name, const std::string& stem,
                  WorkerPool& pool) {
    const Tensors tensors(*inner_, stem);
    const std::string known = tensors.name(reader.matrix_suffix());
    if (known != name && inner_->find(known) != nullptr) {
      return tensors.refuse(reader.matrix_suffix(),
                            "stands next to " + in_quotes(inner_->stored_name(name)) +
                                ", the same matrix quantised; expected one of the two – fetch the "
                                "checkpoint again");
    }
    TENON_ASSIGN_OR_RETURN(const Matrix matrix, reader.read(tensors));
    Entry entry{.name = name, .stored = {}, .view = {}};
    TENON_ASSIGN_OR_RETURN(entry.stored, store(inner_->stored_name(name), matrix, pool));
    const uint64_t row_bytes = entry.stored.row_bytes;
    entry.view.data = entry.stored.bytes.get();
    entry.view.dtype = DType::u8;
    const bool many = matrix.experts > 0;
    entry.view.rank = many ? 3 : 2;
    const std::array<uint64_t, 3> shape{matrix.experts, matrix.n_out, row_bytes};
    const std::array<uint64_t, 3> stride{matrix.n_out * row_bytes, row_bytes, 1};
    for (uint32_t i = 0; i < entry.view.rank; ++i) {
      entry.view.shape[i] = shape[many ? i : i + 1];
      entry.view.stride[i] = stride[many ? i : i + 1];
    }
    hidden_.insert(name);
    inner_->release(*inner_->find(name));
    for (const std::string_view suffix : reader.other_suffixes()) {
      hidden_.insert(tensors.name(suffix));
    }
    matrices_.emplace(known, std::move(entry));
    return {};
  }

  std::unique_ptr<Checkpoint> inner_;
  std::map<std::string, Entry, std::less<>> matrices_;
  std::set<std::string, std::less<>> hidden_;
};

}  // namespace

Result<std::unique_ptr<Checkpoint>> published_checkpoint(std::unique_ptr<Checkpoint> checkpoint,
                                                         const Reader& reader) {
  auto published = std::make_unique<PublishedCheckpoint>(std::move(checkpoint));
  TENON_RETURN_IF_ERROR(published->read_all(reader));
  return std::unique_ptr<Checkpoint>(std::move(published));
}

}  // namespace tenon::published
