#include "core/model/checkpoint/renamed_checkpoint.h"

#include <algorithm>

namespace tenon {

const TensorView* RenamedCheckpoint::find(std::string_view name) const {
  const std::optional<std::string> own = in_whole(name);
  return own ? whole_->find(*own) : nullptr;
}

Result<const TensorView*> RenamedCheckpoint::get(std::string_view name) const {
  // A name that the whole does not know has a message of its own.
  return whole_->get(in_whole(name).value_or(std::string(name)));
}

std::vector<std::string> RenamedCheckpoint::names() const {
  std::vector<std::string> names;
  for (const std::string& stored : whole_->names()) {
    if (std::optional<std::string> name = name_of(stored)) names.push_back(*std::move(name));
  }
  std::ranges::sort(names);
  return names;
}

std::string_view RenamedCheckpoint::quant_format(std::string_view name) const {
  const std::optional<std::string> own = in_whole(name);
  return own ? whole_->quant_format(*own) : std::string_view();
}

std::span<const uint32_t> RenamedCheckpoint::row_order(std::string_view name) const {
  const std::optional<std::string> own = in_whole(name);
  return own ? whole_->row_order(*own) : std::span<const uint32_t>();
}

std::span<const int32_t> RenamedCheckpoint::column_order(std::string_view name) const {
  const std::optional<std::string> own = in_whole(name);
  return own ? whole_->column_order(*own) : std::span<const int32_t>();
}

std::string RenamedCheckpoint::stored_name(std::string_view name) const {
  return whole_->stored_name(in_whole(name).value_or(std::string(name)));
}

}  // namespace tenon
