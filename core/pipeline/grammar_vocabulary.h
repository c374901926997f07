// What text a model's tokens stand for, for grammars.
#pragma once

#include <span>

#include "core/engine/requests/grammars.h"
#include "core/tokenizer/tokenizer.h"

namespace tenon {

// Of a model that can draw `size` tokens. Special tokens, `ends` and ids that the tokenizer does
// not have stand for nothing. The tokenizer outlives what is returned.
GrammarVocabulary grammar_vocabulary(const Tokenizer& tokenizer, uint32_t size,
                                     std::span<const TokenId> ends);

}  // namespace tenon
