#include "core/server/models/model_list.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <optional>

#include "core/base/quote.h"

namespace tenon::server {
namespace {

constexpr size_t kMostOnPage = 1000;

struct PageQuery {
  size_t limit = 20;
  std::string after, before;
};

// "2026-11-28T12:00:00Z"
std::string rfc3339(int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm utc = {};
  ::gmtime_r(&time, &utc);
  char text[32];
  const size_t length = std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return {text, length};
}

api::ApiError fault(const std::string& name, const std::string& sentence) {
  return {.message = sentence, .param = name};
}

std::optional<size_t> limit_of(const std::string& text) {
  size_t limit = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), limit);
  const bool is_number = problem == std::errc() && end == text.data() + text.size();
  if (!is_number || limit == 0 || limit > kMostOnPage) return std::nullopt;
  return limit;
}

api::Outcome<PageQuery> read_query(std::string_view query) {
  PageQuery read;
  while (!query.empty()) {
    const std::string_view field = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), field.size() + 1));
    const size_t equal = field.find('=');
    const std::string name(field.substr(0, equal));
    std::string value;
    if (equal == field.npos || !http::percent_decoded(field.substr(equal + 1), value)) {
      return fault(
          name, "the query has " + in_quotes(field) + " – it must be NAME=VALUE, percent-encoded");
    }
    if (name == "limit") {
      const auto limit = limit_of(value);
      if (!limit) {
        return fault(name, "\"limit\" is " + in_quotes(value) +
                               " – it must be a whole number from 1 to 1000");
      }
      read.limit = *limit;
    } else if (name == "after_id") {
      read.after = std::move(value);
    } else if (name == "before_id") {
      read.before = std::move(value);
    } else if (name != "beta") {  // which Anthropic's package writes for its betas
      return fault(name, "the query has " + in_quotes(name) +
                             " – \"limit\", \"after_id\" and \"before_id\" are known");
    }
  }
  return read;
}

}  // namespace

bool is_anthropics(const http::Request& request) {
  return request.find("anthropic-version") != nullptr;
}

api::Json anthropic_model_json(const ModelEntry& model) {
  return {{"type", "model"},
          {"id", model.name},
          {"display_name", model.name},
          {"created_at", rfc3339(model.created)},
          {"lifecycle", "active"},
          {"max_input_tokens", model.context_tokens},
          {"max_tokens", model.context_tokens}};
}

api::Outcome<api::Json> anthropic_model_list(std::span<const ModelEntry> models,
                                             const std::string& query) {
  auto page = read_query(query);
  if (!page.ok()) return page.error();
  const auto place_of = [&](const std::string& name) {
    return static_cast<size_t>(std::ranges::find(models, name, &ModelEntry::name) - models.begin());
  };
  size_t first = 0, end = models.size();
  for (const auto& [name, id] :
       {std::pair("after_id", &page->after), {"before_id", &page->before}}) {
    if (id->empty() || place_of(*id) < models.size()) continue;
    return fault(name, "there is no model " + in_quotes(*id) + " here – leave " + name + " out");
  }
  if (!page->after.empty()) first = place_of(page->after) + 1;
  if (!page->before.empty()) end = std::max(first, place_of(page->before));
  // Those next to the id that is named.
  const size_t count = std::min(page->limit, end - first);
  const bool has_more = count < end - first;
  if (page->before.empty()) {
    end = first + count;
  } else {
    first = end - count;
  }
  api::Json data = api::Json::array();
  for (size_t i = first; i < end; ++i) data.push_back(anthropic_model_json(models[i]));
  const bool is_empty = first == end;
  return api::Json{{"data", std::move(data)},
                   {"has_more", has_more},
                   {"first_id", is_empty ? api::Json() : api::Json(models[first].name)},
                   {"last_id", is_empty ? api::Json() : api::Json(models[end - 1].name)}};
}

}  // namespace tenon::server
