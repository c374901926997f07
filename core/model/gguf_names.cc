#include "core/model/gguf_names.h"

#include <span>

namespace tenon {
namespace {

struct NamePair {
  std::string_view name;
  std::string_view stored;
};
constexpr NamePair kOutside[] = {
    {"model.embed_tokens", "token_embd"},
    {"model.norm", "output_norm"},
    {"lm_head", "output"},
};
constexpr NamePair kInLayer[] = {
    {"input_layernorm", "attn_norm"},    {"post_attention_layernorm", "ffn_norm"},
    {"self_attn.q_proj", "attn_q"},      {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},      {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"}, {"self_attn.k_norm", "attn_k_norm"},
    {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
};
constexpr std::string_view kLayers = "model.layers.", kBlocks = "blk.";

using Member = std::string_view NamePair::*;

// The stem without ".weight" or ".bias" replaced, when the table has it.
std::string translated(std::string_view text, std::span<const NamePair> table, Member from,
                       Member to) {
  const size_t dot = text.rfind('.');
  const std::string_view stem = text.substr(0, dot);
  for (const NamePair& pair : table) {
    if (dot == std::string_view::npos || pair.*from != stem) continue;
    return std::string(pair.*to).append(text.substr(dot));
  }
  return std::string(text);
}

std::string translate(std::string_view text, std::string_view from_prefix,
                      std::string_view to_prefix, Member from, Member to) {
  if (!text.starts_with(from_prefix)) return translated(text, kOutside, from, to);
  const size_t behind = text.find('.', from_prefix.size());
  if (behind == std::string_view::npos) return std::string(text);
  std::string out(to_prefix);
  out += text.substr(from_prefix.size(), behind + 1 - from_prefix.size());
  return out + translated(text.substr(behind + 1), kInLayer, from, to);
}

}  // namespace

std::string gguf_name(std::string_view name) {
  return translate(name, kLayers, kBlocks, &NamePair::name, &NamePair::stored);
}

std::string name_of_gguf(std::string_view stored) {
  return translate(stored, kBlocks, kLayers, &NamePair::stored, &NamePair::name);
}

}  // namespace tenon
