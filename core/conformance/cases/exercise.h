// A little of everything that a plugin is asked in a pipeline, as a transcript: what cases of every
// interface do with an instance.
#pragma once

#include <string>
#include <vector>

#include "core/conformance/subject.h"

namespace tenon {

// What it answered, a line an answer. Error: it cannot be created, or refused what it was asked.
using Transcript = std::vector<std::string>;
Result<Transcript> exercise(Subject& subject, uint64_t seed);

// The same in more surroundings, in which more of its options count, and what it counted there.
Result<Transcript> exercise_widely(Subject& subject, uint64_t seed);

// Long enough for what an option changes only after a while, such as a limit of waiting or a number
// of tokens.
Result<Transcript> exercise_at_length(Subject& subject, uint64_t seed);

// One a source of cases.
Result<Transcript> exercise_scheduler(Subject& subject, uint64_t seed);
Result<Transcript> exercise_kv_cache(Subject& subject, uint64_t seed);
Result<Transcript> exercise_sampler(Subject& subject, uint64_t seed);
Result<Transcript> exercise_drafter(Subject& subject, uint64_t seed);
Result<Transcript> exercise_linear(Subject& subject, uint64_t seed);
Result<Transcript> exercise_attention(Subject& subject, uint64_t seed);
Result<Transcript> exercise_state(Subject& subject, uint64_t seed);
Result<Transcript> exercise_kv_store(Subject& subject, uint64_t seed);
Result<Transcript> exercise_scheduler_widely(Subject& subject, uint64_t seed);
Result<Transcript> exercise_kv_cache_widely(Subject& subject, uint64_t seed);
Result<Transcript> exercise_drafter_widely(Subject& subject, uint64_t seed);
Result<Transcript> exercise_scheduler_at_length(Subject& subject, uint64_t seed);
Result<Transcript> exercise_kv_cache_at_length(Subject& subject, uint64_t seed);
Result<Transcript> exercise_drafter_at_length(Subject& subject, uint64_t seed);

}  // namespace tenon
