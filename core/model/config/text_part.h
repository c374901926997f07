// Models of text and images, of which the text part is run: their config.json holds that of a text
// model, and their tensors those of one under other names.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/checkpoint/checkpoint.h"
#include "core/model/config/json_fields.h"

namespace tenon {

// Where `of` is empty, all of the model is text and `config` is null.
struct TextPart {
  std::string of;  // the whole's model_type: "gemma3"
  // The whole has a head of its own, next to which the text model's factors and caps of logits, and
  // their keys, count for nothing.
  bool plain_head = false;
  nlohmann::json config;  // config.json of the text model
};

bool is_whole_model(std::string_view model_type);

// What `config`, a config.json, holds of a text model. What is not built is a fault.
TextPart find_text_part(const nlohmann::json& config, Faults& faults);

// A model of text and images, and the text model in it, each by its model_type.
struct TextPartName {
  std::string_view whole, text_type;
};
std::vector<TextPartName> text_part_names();

// The tensors of the text part of `whole` under the names that the text model alone would have;
// others are not in it.
std::unique_ptr<Checkpoint> text_checkpoint(std::unique_ptr<Checkpoint> whole);

}  // namespace tenon
