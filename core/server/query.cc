#include "core/server/query.h"

#include <algorithm>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/http/message.h"

namespace tenon::server {
namespace {

// "\"a\", \"b\" and \"c\" are known"
std::string known_text(std::span<const std::string_view> known) {
  if (known.empty()) return "none is known here";
  std::vector<std::string> names;
  for (const std::string_view name : known) names.push_back("\"" + std::string(name) + "\"");
  return join_and(names) + (known.size() == 1 ? " is known" : " are known");
}

}  // namespace

api::Outcome<Query> read_query(std::string_view query, std::span<const std::string_view> known) {
  Query read;
  while (!query.empty()) {
    const std::string_view field = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), field.size() + 1));
    const size_t equal = field.find('=');
    const std::string name(field.substr(0, equal));
    std::string value;
    if (equal == field.npos || !http::percent_decoded(field.substr(equal + 1), value)) {
      return api::ApiError{.message = "the query has " + in_quotes(field) +
                                      " – it must be NAME=VALUE, percent-encoded"};
    }
    if (std::ranges::find(known, name) == known.end()) {
      return api::ApiError{
          .message = "the query has " + in_quotes(name) + " – " + known_text(known), .param = name};
    }
    read[name] = std::move(value);
  }
  return read;
}

std::string query_value(const Query& query, std::string_view name) {
  const auto found = query.find(name);
  return found == query.end() ? std::string() : found->second;
}

}  // namespace tenon::server
