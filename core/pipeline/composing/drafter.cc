// What a drafter and the target must know of each other.
#include <string>

#include "core/base/files/mapped_file.h"
#include "core/base/quote.h"
#include "core/contract/checked_drafter.h"
#include "core/pipeline/composing/composing.h"

namespace tenon {
namespace {

constexpr std::string_view kDrafterText = "drafter_text/1";

std::string drafter_name(const BoundPlugins& pipeline) {
  return "drafter " + in_quotes(pipeline.drafter.object().descriptor().id);
}

}  // namespace

Status read_draft_text(BoundPlugins& pipeline) {
  const auto& path = pipeline.config.draft_text_path;
  if (path.value.empty()) return {};
  const auto refuse = [&](const Status& status) {
    return with_context(path.origin.text() + ": drafter.text", status);
  };
  if (pipeline.tokenizer == nullptr) return refuse(pipeline.tokenizer_problem);
  const Result<std::string> text = read_text_file(path.value);
  if (!text.ok()) return refuse(text.status());
  auto tokens = pipeline.tokenizer->encode(*text, {.add_special = false});
  if (!tokens.ok()) return refuse(tokens.status());
  pipeline.draft_text = *std::move(tokens);
  pipeline.draft_text_view = pipeline.draft_text;
  pipeline.extensions.add(std::string(kDrafterText), &pipeline.draft_text_view);
  return {};
}

Status check_draft_text(const BoundPlugins& pipeline) {
  const auto& path = pipeline.config.draft_text_path;
  if (path.value.empty() || pipeline.extensions.asked(kDrafterText)) return {};
  return invalid_argument(path.origin.text() + ": drafter.text is set, but " +
                          drafter_name(pipeline) + " looks in no text; remove it");
}

Status bind_drafter(BoundPlugins& pipeline) {
  const ModelShape& shape = pipeline.shape->shape();
  std::vector<LayerId> layers(shape.layer_count + 1);
  HiddenLayersOut wanted;
  wanted.layers = layers;
  const std::string name(pipeline.drafter.object().descriptor().id);
  CheckedDrafter checked(*pipeline.drafter, name, shape.vocabulary);
  if (Status status = checked.bind(shape, wanted); !status.ok()) {
    return with_context("drafter '" + name + "'", status);
  }
  layers.resize(wanted.count);
  pipeline.hidden_layers = std::move(layers);
  pipeline.hidden_drawn_only = wanted.drawn_only;
  return {};
}

}  // namespace tenon
