// An extension of drafters (kPromptStates): which prompts they see the target's hidden states of.
//
// A target that shows states along a prompt computes its last layers for all tokens of it, where
// otherwise the last token alone would go through the last MLP. A drafter whose drafts do not pay
// just now says so here, and the prompt costs what it costs without a drafter. States at tokens
// after which the target draws are shown all the same, so that a drafter with a window may go on.
//
// Threads: [step].
#pragma once

#include <tenon/drafter.h>

#include <string_view>

namespace tenon {

// `const PromptStates*`
inline constexpr std::string_view kPromptStates = "prompt_states/1";
// What a drafter offers that wants to see some prompts and not others.
struct PromptStates {
  void* self = nullptr;  // first argument
  // Asked once of each sequence, after Drafter::begin: whether Drafter::observe is to show the
  // states along its prompt.
  bool (*wanted)(void* self, SeqId seq) noexcept = nullptr;
};

}  // namespace tenon
