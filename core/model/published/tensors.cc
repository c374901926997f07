#include <algorithm>
#include <cstring>

#include "core/base/quote.h"
#include "core/model/published/reader.h"
#include "core/model/tensors/tensor_values.h"

namespace tenon::published {
namespace {

std::string extents_text(std::span<const uint64_t> shape) {
  std::string text = "[";
  for (const uint64_t extent : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  }
  return text + "]";
}

// With one group nothing is out of turn. With several, all that is left to know is where they end.
Status check_without_groups(const Tensors& tensors, std::string_view suffix, uint64_t k_in,
                            uint64_t group, const OrderClaim& claim) {
  const uint64_t groups = (k_in + group - 1) / group;
  if (groups == 1) return {};
  if (claim.said == OrderClaim::Said::out_of_turn) {
    return tensors.refuse(suffix, "is missing; " + std::string(claim.words) +
                                      ", so that it alone says which group a column belongs to – "
                                      "fetch the whole checkpoint again");
  }
  const uint64_t equal = k_in / groups;
  if (k_in % groups != 0 || equal % 32 != 0 || equal == group) return {};
  return tensors.refuse(
      suffix, "is missing; " + std::to_string(groups) + " groups of " + std::to_string(k_in) +
                  " columns may be of " + std::to_string(group) + ", as the config says, or of " +
                  std::to_string(equal) + " each – correct 'group_size', or fetch the tensor");
}

}  // namespace

Status Tensors::refuse(std::string_view suffix, std::string_view found) const {
  return invalid_argument("tensor " + in_quotes(checkpoint_.stored_name(name(suffix))) + " " +
                          std::string(found));
}

Result<const TensorView*> Tensors::get(std::string_view suffix, std::initializer_list<DType> types,
                                       uint32_t rank) const {
  Result<const TensorView*> found = checkpoint_.get(name(suffix));
  if (!found.ok()) {
    if (found.status().code() != StatusCode::not_found) return found.take_status();
    return refuse(suffix, "is missing; 'quantization_config' says that there is one");
  }
  const TensorView& view = **found;
  if (std::ranges::find(types, view.dtype) == types.end()) {
    std::string wanted;
    for (const DType type : types) {
      wanted += (wanted.empty() ? "" : " or ") + std::string(dtype_name(type));
    }
    return refuse(
        suffix, "has element type " + std::string(dtype_name(view.dtype)) + "; expected " + wanted);
  }
  if (view.rank != rank) {
    return refuse(suffix, "has " + std::to_string(view.rank) + " dimensions; expected " +
                              std::to_string(rank));
  }
  // Products of extents are taken below without a thought.
  for (uint32_t i = 0; i < rank; ++i) {
    if (view.shape[i] == 0 || view.shape[i] > (uint64_t{1} << 31)) {
      return refuse(suffix, "is " + extents_text({view.shape, view.rank}) +
                                "; every extent must be from 1 to 2147483648");
    }
  }
  return found;
}

Result<const TensorView*> Tensors::get(std::string_view suffix, std::initializer_list<DType> types,
                                       std::initializer_list<uint64_t> shape) const {
  TENON_ASSIGN_OR_RETURN(const TensorView* view,
                         get(suffix, types, static_cast<uint32_t>(shape.size())));
  if (std::ranges::equal(std::span(view->shape, view->rank), shape)) return view;
  return refuse(suffix, "is " + extents_text({view->shape, view->rank}) +
                            "; its matrix and 'quantization_config' make it " +
                            extents_text({shape.begin(), shape.size()}));
}

int32_t word_at(const TensorView& view, uint64_t row, uint64_t column) {
  int32_t word;
  std::memcpy(&word, static_cast<const std::byte*>(view.data) + (row * view.shape[1] + column) * 4,
              4);
  return word;
}

Result<ColumnGroups> read_column_groups(const Tensors& tensors, std::string_view suffix,
                                        uint64_t k_in, uint64_t group, const OrderClaim& claim) {
  ColumnGroups out;
  const uint64_t groups = (k_in + group - 1) / group;
  if (!tensors.has(suffix)) {
    TENON_RETURN_IF_ERROR(check_without_groups(tensors, suffix, k_in, group, claim));
    return out;
  }
  TENON_ASSIGN_OR_RETURN(const TensorView* view, tensors.get(suffix, {DType::i32}, {k_in}));
  std::vector<std::vector<int32_t>> columns(groups);
  bool in_turn = true;
  for (uint64_t k = 0; k < k_in; ++k) {
    int32_t of;
    std::memcpy(&of, static_cast<const std::byte*>(view->data) + 4 * k, 4);
    if (of < 0 || static_cast<uint64_t>(of) >= groups) {
      return tensors.refuse(suffix, "puts column " + std::to_string(k) + " into group " +
                                        std::to_string(of) + " of " + std::to_string(groups));
    }
    columns[static_cast<uint64_t>(of)].push_back(static_cast<int32_t>(k));
    in_turn = in_turn && static_cast<uint64_t>(of) == k / group;
  }
  if (in_turn) return out;
  // Programs differ in whether they then follow the tensor or the config.
  if (claim.said == OrderClaim::Said::in_turn) {
    return tensors.refuse(suffix, "puts columns into groups out of turn, but " +
                                      std::string(claim.words) +
                                      "; one of the two is wrong – fetch both files again, or "
                                      "correct the config");
  }
  for (uint64_t g = 0; g < groups; ++g) {
    if (columns[g].size() != std::min(group, k_in - g * group)) {
      return tensors.refuse(suffix, "gives group " + std::to_string(g) + " " +
                                        std::to_string(columns[g].size()) + " columns; expected " +
                                        std::to_string(group));
    }
    out.order.insert(out.order.end(), columns[g].begin(), columns[g].end());
  }
  return out;
}

Result<Extents> read_extents(const Tensors& tensors, std::string_view suffix) {
  TENON_ASSIGN_OR_RETURN(const TensorView* view,
                         tensors.get(suffix, {DType::i64, DType::i32}, {2}));
  const auto extent = [view](uint64_t i) {
    int64_t value = 0;
    const uint64_t bytes = view->dtype == DType::i64 ? 8 : 4;
    std::memcpy(&value, static_cast<const std::byte*>(view->data) + i * bytes, bytes);
    return static_cast<uint64_t>(value);
  };
  return Extents{extent(0), extent(1)};
}

bool is_all_zero(const TensorView& view) {
  return std::ranges::all_of(bytes_of(view), [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace tenon::published
