// Shapes of decoders with RMS norms and gated MLPs, and their nearest kin, as config.json says
// them.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <string>

namespace tenon::decoder_shapes {

// The numbers that differ in every model; the rest is set where the shape is made.
struct Widths {
  uint32_t hidden, intermediate, layers, heads, kv_heads, head_dim, vocabulary, context_tokens;
};

std::string llama3(const Widths& widths, double factor, bool tied);
std::string llama(const Widths& widths, bool tied, TokenId bos, TokenId eos);
std::string qwen2(const Widths& widths);
std::string qwen3(const Widths& widths);
std::string mistral_7b();
std::string gemma2_2b();
std::string gemma3_1b();
std::string phi3_mini();
std::string olmo2_1b();
std::string granite_2b();
std::string smollm3_3b();
std::string starcoder2_3b();
std::string gpt2_small();
std::string pythia_1b();
std::string stablelm2_1_6b();
std::string command_r();

}  // namespace tenon::decoder_shapes
