// Holds requests to the form that their answers must have (core/grammar).
#pragma once

#include "core/chat/answers/reasoning_place.h"
#include "core/server/generation/generation.h"

namespace tenon::server {

// Forms that were compiled are kept, as many requests have the same. What it gives may be called by
// several threads at once.
FormConstrainer make_form_constrainer();

// What the model thinks before a form, where its family thinks and the conversation that it
// goes on from (the first of `prompts`) leaves room for it.
std::optional<grammar::Preface> preface_of(const ServedModel& model,
                                           const api::GenerationCall& call,
                                           const std::vector<std::string>& prompts);
// The place of that reasoning. Absent: the form is all of the answer.
std::optional<ReasoningPlace> reasoning_before_form(const api::GenerationCall& call,
                                                    ReasoningFormat format,
                                                    std::string_view prompt);

}  // namespace tenon::server
