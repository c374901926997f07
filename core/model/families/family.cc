#include "core/model/families/family.h"

#include <algorithm>
#include <cctype>

#include "core/model/families/families.h"

namespace tenon {
namespace {

constexpr const Family* kFamilies[] = {
#define TENON_FAMILY(family) &(family),
#include "core/model/families/families.def"
#undef TENON_FAMILY
};

// Other names of a model_type, under which a family's checkpoints are published as well.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"kimi_k2", "deepseek_v3"},
};
// Of GGUF files, of which the part that reads texts runs: its positions have three axes, which say
// the same of a text.
constexpr std::pair<std::string_view, std::string_view> kWithImages[] = {
    {"qwen2vl", "qwen2"},
    {"qwen3vl", "qwen3"},
    {"qwen3vlmoe", "qwen3_moe"},
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
  for (const auto& [other, name] : kOtherNames) {
    if (model_type == other) model_type = name;
  }
  const auto found = std::ranges::find(kFamilies, model_type, &Family::model_type);
  return found == std::end(kFamilies) ? nullptr : *found;
}

bool is_class_of(const Family& family, std::string_view class_name) {
  for (const std::string_view stem : {family.class_stem, family.other_stem}) {
    for (const char* kind : {"ForCausalLM", "Model", "LMHeadModel", "ModelLM", "_ForCausalLM"}) {
      if (!stem.empty() && equal_but_case(class_name, std::string(stem) + kind)) return true;
    }
  }
  return false;
}

const Family* find_family_by_class(std::string_view class_name) {
  const auto found = std::ranges::find_if(
      kFamilies, [&](const Family* family) { return is_class_of(*family, class_name); });
  return found == std::end(kFamilies) ? nullptr : *found;
}

const Family* find_family_by_architecture(std::string_view architecture) {
  if (architecture.empty()) return nullptr;
  for (const auto& [with_images, text] : kWithImages) {
    if (architecture == with_images) return find_family(text);
  }
  const auto found = std::ranges::find(kFamilies, architecture, &Family::architecture);
  return found == std::end(kFamilies) ? find_family(architecture) : *found;
}

const Family& family_of(const ModelPlan& plan) {
  const Family* family = find_family(plan.architecture);
  return family != nullptr ? *family : kLlama;
}

}  // namespace tenon
