// Names of tensors in GGUF files and in Hugging Face checkpoints.
#pragma once

#include <string>
#include <string_view>

namespace tenon {

// "model.layers.3.self_attn.q_proj.weight" → "blk.3.attn_q.weight". A name without a counterpart
// keeps its part behind the layer, so that both directions undo each other.
std::string gguf_name(std::string_view name);
// The other way.
std::string name_of_gguf(std::string_view stored);

}  // namespace tenon
