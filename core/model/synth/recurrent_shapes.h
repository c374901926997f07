// More of the named shapes (named_shapes.h): models whose layers recur, or some of them.
#pragma once

#include <cstdint>
#include <string>

namespace tenon::recurrent_shapes {

std::string mamba(uint32_t hidden, uint32_t layers);
std::string mamba2_2_7b();
std::string granite4_h_micro();
std::string granite4_h_tiny();
std::string qwen3_next_80b_a3b();
std::string qwen3_5_4b();
std::string qwen3_5_9b();
std::string qwen3_5_35b_a3b();
std::string lfm2_1_2b();
std::string lfm2_8b_a1b();
std::string lfm3_1_7b();
std::string kimi_linear_48b_a3b();
std::string olmo_hybrid_7b();
std::string nemotron_h_8b();
std::string nemotron_3_nano_30b_a3b();
std::string bamba_9b();
std::string falcon_h1_0_5b();
std::string jamba_v0_1();
std::string zamba2_1_2b();
std::string zamba2_2_7b();
std::string xlstm_7b();

}  // namespace tenon::recurrent_shapes
