// A checkpoint whose tensors have other names, or that is a part of another one.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/model/checkpoint/checkpoint.h"

namespace tenon {

class RenamedCheckpoint : public Checkpoint {
 public:
  const TensorView* find(std::string_view name) const final;
  Result<const TensorView*> get(std::string_view name) const final;
  std::vector<std::string> names() const final;
  std::string_view quant_format(std::string_view name) const final;
  std::span<const uint32_t> row_order(std::string_view name) const final;
  std::span<const int32_t> column_order(std::string_view name) const final;
  std::string stored_name(std::string_view name) const final;
  void release(const TensorView& tensor) const final { whole_->release(tensor); }

 protected:
  explicit RenamedCheckpoint(std::unique_ptr<Checkpoint> whole) : whole_(std::move(whole)) {}
  const Checkpoint& whole() const { return *whole_; }
  // What the whole checkpoint calls a tensor; nothing where there is none under this name.
  virtual std::optional<std::string> in_whole(std::string_view name) const = 0;
  // The name here of one of its tensors; nothing where names() does not list it.
  virtual std::optional<std::string> name_of(std::string_view in_whole) const = 0;

 private:
  std::unique_ptr<Checkpoint> whole_;
};

}  // namespace tenon
