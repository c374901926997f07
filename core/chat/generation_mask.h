// Which tokens of a conversation the model is to learn, or to be judged by: those of its own turns.
#pragma once

#include <tenon/types.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/result.h"
#include "core/chat/chat_template.h"

namespace tenon {

class Tokenizer;

// 1 for each token that has a byte of a {% generation %} block, else 0, as transformers has it
// (return_assistant_tokens_mask) but for a last character of several tokens, of which that takes
// the first alone. `ids` are those of encode_chat(). Error: unsupported (the tokenizer changes the
// text, so that its tokens have no place in it).
Result<std::vector<uint8_t>> generation_mask(const Tokenizer& tokenizer, const RenderedChat& chat,
                                             std::span<const TokenId> ids);

}  // namespace tenon
