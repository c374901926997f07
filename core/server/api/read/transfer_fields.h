// What a request says of K/V that goes from one worker to another: vLLM's kv_transfer_params, and
// SGLang's bootstrap_host, _port and _room.
#pragma once

#include "core/server/api/call.h"
#include "core/server/api/read/fields.h"

namespace tenon::api {

void read_transfer(Fields& fields, GenerationCall& call);

// "4f1e…", as a worker names what it computed for others in its answers. Nothing for other texts.
std::string transfer_name(uint64_t id);
std::optional<uint64_t> parse_transfer_name(std::string_view name);

}  // namespace tenon::api
