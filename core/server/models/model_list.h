// GET /v1/models as Anthropic's clients read it: they name themselves by the header
// "anthropic-version".
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/http/server.h"
#include "core/server/api/read/json.h"

namespace tenon::server {

struct ModelEntry {
  std::string name;
  int64_t created = 0;  // seconds since 1970
  uint64_t context_tokens = 0;
};

bool is_anthropics(const http::Request& request);

// {"type": "model", "id", "display_name", "created_at", …}
api::Json anthropic_model_json(const ModelEntry& model);
// A page of them, {"data", "has_more", "first_id", "last_id"}; the query may have "limit",
// "after_id" and "before_id". Errors: status 400, with the member of the query at fault.
api::Outcome<api::Json> anthropic_model_list(std::span<const ModelEntry> models,
                                             const std::string& query);

}  // namespace tenon::server
