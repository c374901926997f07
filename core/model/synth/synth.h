// Checkpoints made for measurements: random weights in the shape of a known model, and a small
// trained model grown into a large shape, which costs as much and still says the same.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/model/convert/safetensors_writer.h"
#include "core/model/synth/named_shapes.h"

namespace tenon {

struct SynthesisOptions {
  std::string out_folder;      // created; must not hold a model yet
  DType dtype = DType::bf16;   // f32, f16 or bf16, of every tensor
  uint64_t seed = 0;           // the same seed and shape give the same bytes
  uint32_t layers = 0;         // in place of the shape's; 0 = as many as it has
  std::string tokenizer_from;  // a folder whose tokenizer is copied; empty = none. The vocabulary
                               // stays the shape's.
  WriteProgress progress;      // may be empty
};

// Writes a Hugging Face folder (config.json, model.safetensors) with random weights whose logits
// are finite and of ordinary size. The text is nonsense.
Status synthesize_model(std::string_view shape, const SynthesisOptions& options);

struct GrowthOptions {
  std::string out_folder;      // created; must not hold a model yet
  std::optional<DType> dtype;  // of matrices; absent = each keeps its own. Norms, biases are f32
  WriteProgress progress;      // may be empty
};

// Embeds the model in `source_folder` in a larger shape by zero padding, so that its logits are the
// same but for rounding while hidden width, layers, heads and MLP are the shape's:
//
//   hidden      the source's features come first, the others stay zero. A row's mean square shrinks
//               by h/H, so norm weights are multiplied by sqrt(h/H) and eps by h/H.
//   heads       head_dim stays the source's, and with it rotary embedding and scale; the number of
//               heads makes up the shape's attention width. Query heads stay with their KV head;
//               where the shape has fewer query heads a KV head, KV heads are repeated.
//   layers      those added have zero output and down projections: they add nothing.
//   unchanged   family, vocabulary, context, rotary settings, tokenizer and generation files.
//
// With norms of q and k the smaller eps applies to those too: a relative difference of eps over the
// mean square of a head, about 1e-6.
//
// Errors: invalid_argument, saying which of these does not fit.
Status grow_model(const std::string& source_folder, std::string_view shape,
                  const GrowthOptions& options);

}  // namespace tenon
