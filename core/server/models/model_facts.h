// What a served model and its server are, in the shapes that routers and tools ask for.
#pragma once

#include <string>

#include "core/server/models/served_model.h"

namespace tenon::server {

// vLLM's /tokenizer_info: tokenizer_config.json with its tokens as texts, the class of the
// tokenizer and the chat template that is used. Of a model without such a file: what its tokenizer
// says.
std::string tokenizer_info_json(const ServedModel& model);

// SGLang's /model_info. What does not exist here (parsers by name, formats to load) is not in it.
std::string model_info_json(const ServedModel& model);

// SGLang's /server_info, of one model: what its engine was given and holds, as far as that has a
// counterpart here, and what Tenon alone has.
std::string server_info_json(const ServedModel& model, const std::string& version);

// One entry of SGLang's /get_load: who runs and waits, and how many tokens they hold.
api::Json load_json(const ServedModel& model);

}  // namespace tenon::server
