// More of the named shapes (named_shapes.h): models with DeepSeek-V3's router on attention of any
// kind, and those that came with them.
#pragma once

#include <string>

namespace tenon::router_shapes {

std::string glm_4_5_air();
std::string glm_4_7_flash();
std::string ax_k1();
std::string minimax_m2();
std::string kimi_k2();
std::string deepseek_v3_2();
std::string glm_5();
std::string ling_3_flash();
std::string ministral_3_8b();
std::string mistral_small_4();
std::string dots_llm1();
std::string ernie_4_5_21b_a3b();
std::string solar_open_100b();
std::string k_exaone_236b_a23b();
std::string mellum_2_12b();
std::string hy3();
std::string youtu_llm_2b();
std::string hunyuan_a13b();
std::string trinity_mini();
std::string laguna_xs_2();
std::string mimo_v2_flash();
// With the sizes that transformers takes where a config.json says none.
std::string command_a_plus();

}  // namespace tenon::router_shapes
