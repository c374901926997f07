// The fields that say how an answer is sampled: by OpenAI's names, vLLM's, and Tenon's own.
#pragma once

#include "core/server/api/call.h"
#include "core/server/api/read/fields.h"

namespace tenon::api {

// Everything but logprobs and limits of length, which the dialects name differently.
void read_sampling(Fields& fields, GenerationCall& call);
// One parameter of Tenon's under another name; an absent field leaves it alone.
void read_as(Fields& fields, std::string_view name, std::string_view parameter,
             GenerationCall& call);
// The body of a dialect's requests, in the table of fields.
Place place_of(Dialect dialect);
// The field that a prompt comes from.
std::string prompt_field(Dialect dialect);
// What a model refused, by the name that the request has for it; `setting` is a parameter's, or
// "prompt" or "grammar", or empty where no single one is to blame.
ApiError error_about(const GenerationCall& call, std::string_view setting, std::string message);
// What vLLM adds to every request: priority, cache_salt, and whether the pipeline's watermark is
// left out.
void read_extras(Fields& fields, GenerationCall& call);
// How tokens are shown: "return_token_ids" and "return_tokens_as_token_ids".
void read_token_ids(Fields& fields, GenerationCall& call);
// "stream" and "stream_options".
void read_streaming(Fields& fields, GenerationCall& call);
// "response_format", and vLLM's and SGLang's names for forms.
void read_form(Fields& fields, GenerationCall& call);
// vLLM's names alone.
void read_vllm_forms(Fields& fields, GenerationCall& call);
// The last word on a request: the table of fields settles what nobody took, and the first fault is
// told.
Outcome<GenerationCall> finish_call(Fields& fields, GenerationCall call);

}  // namespace tenon::api
