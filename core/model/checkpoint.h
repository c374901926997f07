// A checkpoint: tensor names to borrowed views of mapped files.
#pragma once

#include <tenon/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/mapped_file.h"
#include "core/base/result.h"

namespace tenon {

class Checkpoint {
 public:
  virtual ~Checkpoint() = default;
  // Null when there is no tensor of that name. Views live as long as the checkpoint.
  virtual const TensorView* find(std::string_view name) const = 0;
  virtual std::vector<std::string> names() const = 0;  // sorted
  // The pages of these bytes may be dropped; they are read again if touched.
  virtual void release(const TensorView& tensor) const = 0;
};

// One .safetensors file (https://github.com/huggingface/safetensors, format section).
Result<std::unique_ptr<Checkpoint>> open_safetensors(const std::string& path);
// A folder: model.safetensors, or the shards that model.safetensors.index.json lists.
Result<std::unique_ptr<Checkpoint>> open_safetensors_folder(const std::string& folder);

}  // namespace tenon
