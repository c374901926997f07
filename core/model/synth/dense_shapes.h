// More of the named shapes (named_shapes.h): further sizes of dense models, and the families that
// have one model each there.
#pragma once

#include <string>

namespace tenon::dense_shapes {

std::string gemma2_9b();
std::string gemma3_4b();
std::string bitnet_2b();
std::string gemma3n_e4b();
std::string gemma4_e4b();
std::string gemma4_12b();
std::string phi4();
std::string olmo2_7b();
std::string granite_8b();
std::string gpt2_medium();
std::string gpt2_large();
std::string gpt2_xl();
std::string pythia_160m();
std::string neox_20b();
std::string mpt_7b();
std::string bloom_560m();
std::string falcon_7b();
std::string falcon_40b();
std::string olmo_1b();
std::string phi_2();
std::string doge_320m();
std::string nemotron_4b();
std::string llada_8b();

}  // namespace tenon::dense_shapes
