#include "core/compare/arms/weights.h"

#include <filesystem>
#include <memory>

#include "core/base/quote.h"
#include "core/model/model.h"
#include "core/pipeline/convert_model.h"

namespace tenon::compare {

Status check_weights(const Comparison& comparison) {
  for (const ComparisonArm& arm : comparison.arms) {
    const auto type = writable_type("weights", arm.weights);
    if (!type.ok()) return with_context("arm " + in_quotes(arm.name), type.status());
  }
  return {};
}

ArmWeights::~ArmWeights() {
  for (const auto& [type, file] : files_) {
    std::error_code error;
    std::filesystem::remove(file.path, error);
  }
}

Result<ArmWeights::File> ArmWeights::made(const std::string& model, const std::string& type) {
  if (const auto found = files_.find(type); found != files_.end()) return found->second;
  TENON_ASSIGN_OR_RETURN(const TensorType* const wanted, writable_type("weights", type));
  TENON_ASSIGN_OR_RETURN(const std::unique_ptr<Model> opened, open_model(model));
  TENON_ASSIGN_OR_RETURN(const bool tokenizer, has_tokenizer(model));
  const std::string path = folder_.file("weights-" + type + ".gguf");
  TENON_ASSIGN_OR_RETURN(ConvertedFile made, convert_to_file(*opened, model, path, tokenizer,
                                                             {.type = wanted, .progress = {}}));
  return files_.emplace(type, File{path, std::move(made.kept)}).first->second;
}

}  // namespace tenon::compare
