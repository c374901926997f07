// More of the named shapes (named_shapes.h): models with experts, and what they are without.
#pragma once

#include <cstdint>
#include <string>

namespace tenon::expert_shapes {

std::string olmoe_1b_7b();
std::string mixtral_8x7b();
std::string qwen2_moe_a2_7b();
std::string qwen3_30b_a3b();
std::string qwen3_vl_30b_a3b();
std::string gpt_oss_20b();
// `shared_width`: of an MLP beside the experts; 0: none.
std::string granite3_3b_a800m(uint32_t shared_width);
std::string granite3_3b_swa();
std::string deepseek_v2_lite();
std::string deepseek_v2_lite_dense();
std::string deepseek_v3();
std::string llama_4_scout();
std::string llama_4_maverick();
std::string step_3_7_flash();
std::string minimax_01();
std::string longcat_flash();
std::string gemma4_26b_a4b();

}  // namespace tenon::expert_shapes
