// The tokens that end a text: all that the model's files and its tokenizer's name.
#pragma once

#include <string>
#include <vector>

#include "core/base/text_end.h"
#include "core/model/model.h"
#include "core/tokenizer/tokenizer.h"

namespace tenon {

// In the order of the files: the model's, then the tokenizer's; what the family has by default
// counts where nobody says anything. `tokenizer` may be null.
std::vector<TextEnd> text_ends(const Model& model, const Tokenizer* tokenizer);

// "4092 '<|endoftext|>' (config.json, tokenizer_config.json)", of each; "none" without any.
std::string text_ends_text(const std::vector<TextEnd>& ends, const Tokenizer* tokenizer);

}  // namespace tenon
