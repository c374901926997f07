// A model made smaller by what matters least to it: whole layers, groups of heads, channels of
// MLPs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/model/model.h"

namespace tenon::quantize {

struct PruneRequest {
  std::string out;  // a folder to make
  // How many go: of the model's layers; of each layer's KV heads, with the query heads that read
  // them; of each layer's MLP channels, as a share (rounded so that whole 32 stay).
  uint32_t layers = 0;
  uint32_t kv_heads = 0;
  double channels = 0;
  std::vector<std::vector<TokenId>> windows;   // of the text that says what matters
  std::function<void(double share)> progress;  // may be empty
};

// What went.
struct PruneReport {
  std::vector<uint32_t> layers;
  uint32_t kv_heads = 0, channels = 0;  // of each layer
  uint64_t parameters_before = 0, parameters = 0;
};

// Importance on the text: of a layer how far it moves the stream, |out - in|² / |in|²; of a channel
// or a head what it adds to the stream, the mean square of what enters its columns of the next
// matrix times their own squares. Matrices keep their element types. Errors: unsupported (a
// quantised model, fused or transposed matrices, experts, a config.json that cannot say the
// result), invalid_argument (nothing or everything is to go).
Result<PruneReport> prune_model(const Model& model, const PruneRequest& request);

}  // namespace tenon::quantize
