#include "core/model/families/family.h"

#include <algorithm>
#include <cctype>

#include "core/model/families/families.h"

namespace tenon {
namespace {

constexpr const Family* kFamilies[] = {
    &kLlama,      &kMistral,          &kQwen2,         &kQwen3,
    &kGemma2,     &kGemma3,           &kPhi3,          &kOlmo2,
    &kGranite,    &kSmolLm3,          &kStarcoder2,    &kGpt2,
    &kGptNeox,    &kStableLm,         &kCohere,        &kMpt,
    &kBloom,      &kFalcon,           &kOlmo,          &kPhi,
    &kNemotron,   &kMixtral,          &kQwen2Moe,      &kQwen3Moe,
    &kOlmoe,      &kGptOss,           &kDeepseekV2,    &kDeepseekV3,
    &kMamba,      &kMamba2,           &kGraniteHybrid, &kLlada,
    &kGraniteMoe, &kGraniteMoeShared, &kQwen3Next,     &kQwen35,
    &kQwen35Moe,
};

// Early Llama checkpoints write "LLaMAForCausalLM".
bool equal_but_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

std::span<const Family* const> families() {
  return kFamilies;
}

const Family* find_family(std::string_view model_type) {
  const auto found = std::ranges::find(kFamilies, model_type, &Family::model_type);
  return found == std::end(kFamilies) ? nullptr : *found;
}

const Family* find_family_by_class(std::string_view class_name) {
  for (const Family* family : kFamilies) {
    for (const char* kind : {"ForCausalLM", "Model", "LMHeadModel", "ModelLM"}) {
      if (equal_but_case(class_name, std::string(family->class_stem) + kind)) return family;
    }
  }
  return nullptr;
}

const Family* find_family_by_architecture(std::string_view architecture) {
  if (architecture.empty()) return nullptr;
  const auto found = std::ranges::find(kFamilies, architecture, &Family::architecture);
  return found == std::end(kFamilies) ? find_family(architecture) : *found;
}

std::string family_names() {
  std::string names;
  for (const Family* family : kFamilies) {
    names += (names.empty() ? "" : ", ") + std::string(family->model_type);
  }
  return names;
}

std::string family_architectures() {
  std::string names;
  for (const Family* family : kFamilies) {
    const std::string name(family->architecture);
    if (name.empty() || find_family_by_architecture(name) != family) continue;
    names += (names.empty() ? "" : ", ") + name;
  }
  return names;
}

const Family& family_of(const ModelPlan& plan) {
  const Family* family = find_family(plan.architecture);
  return family != nullptr ? *family : kLlama;
}

}  // namespace tenon
