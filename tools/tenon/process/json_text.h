// JSON for standard output. Paths, texts of models and what was generated need not be UTF-8; JSON
// must: what is not becomes U+FFFD.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tenon {

template <typename Json>
std::string json_text(const Json& json, int indent = 2) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tenon
