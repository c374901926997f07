// A checkpoint: tensor names to borrowed views of mapped files.
#pragma once

#include <tenon/types.h>

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/files/mapped_file.h"
#include "core/base/result.h"

namespace tenon {

class Checkpoint {
 public:
  virtual ~Checkpoint() = default;
  // Null when there is no tensor of that name, or none that a TensorView can express. Views live
  // as long as the checkpoint; their data may be aligned to a single byte.
  virtual const TensorView* find(std::string_view name) const = 0;
  // As `find`, never null: not_found, or unsupported with the element type or rank that has no
  // view here.
  virtual Result<const TensorView*> get(std::string_view name) const = 0;
  virtual std::vector<std::string> names() const = 0;  // sorted; with those that have no view
  // The format of a tensor that is stored in quantised blocks ("q8_0",
  // core/model/formats/quant_format.h); its view is then u8 [rows, bytes a row]. Empty for all
  // others.
  virtual std::string_view quant_format(std::string_view) const { return {}; }
  // [rows]: where row n of a matrix stands in its view (WeightView::row_order). Empty: in order.
  // Lives as long as the checkpoint.
  virtual std::span<const uint32_t> row_order(std::string_view) const { return {}; }
  // [columns]: column i of a matrix in blocks belongs to x[order[i]]. Empty: in order. Lives as
  // long as the checkpoint.
  virtual std::span<const int32_t> column_order(std::string_view) const { return {}; }
  // What the file itself calls the tensor, for messages.
  virtual std::string stored_name(std::string_view name) const { return std::string(name); }
  // The pages of these bytes may be dropped; they are read again if touched. [any]
  virtual void release(const TensorView& tensor) const = 0;
};

// One .safetensors file (docs/formats/safetensors.md). The file must not shrink while it is open.
Result<std::unique_ptr<Checkpoint>> open_safetensors(const std::string& path);
// A folder: model.safetensors, or else the shards that model.safetensors.index.json lists. Each
// tensor must be in the shard that the index gives for it; shards lie in the folder itself.
Result<std::unique_ptr<Checkpoint>> open_safetensors_folder(const std::string& folder);

}  // namespace tenon
