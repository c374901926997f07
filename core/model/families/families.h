// What the files of this folder define, for the table in core/model/families/family.cc.
#pragma once

#include "core/model/families/family.h"

namespace tenon {

extern const Family kLlama, kMistral, kQwen2, kQwen3, kGemma2, kGemma3, kPhi3, kOlmo2, kGranite,
    kSmolLm3, kStarcoder2, kGpt2, kGptNeox, kStableLm, kCohere, kMpt, kBloom, kFalcon, kOlmo, kPhi,
    kNemotron, kMixtral, kQwen2Moe, kQwen3Moe, kOlmoe, kGptOss, kDeepseekV2, kDeepseekV3, kMamba,
    kMamba2, kGraniteHybrid, kLlada, kGraniteMoe, kGraniteMoeShared, kQwen3Next, kQwen35,
    kQwen35Moe, kOlmo3, kErnie45, kSeedOss, kArcee, kJais2, kApertus, kHelium, kExaone, kExaone4,
    kCohere2, kGlm, kGlm4, kHunyuanDense, kCwm, kGemma, kVaultGemma, kHyperClovaX, kGraniteSwa,
    kIquestCoder, kInternLm3, kMinistral, kNanochat;

}  // namespace tenon
