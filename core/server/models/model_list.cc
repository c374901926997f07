#include "core/server/models/model_list.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <optional>

#include "core/base/quote.h"
#include "core/server/query.h"

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

// "beta" is what Anthropic's package writes for its betas.
api::Outcome<PageQuery> read_page(std::string_view query) {
  static constexpr std::array<std::string_view, 4> kKnown = {"limit", "after_id", "before_id",
                                                             "beta"};
  const auto values = read_query(query, kKnown);
  if (!values.ok()) return values.error();
  PageQuery read{.after = query_value(*values, "after_id"),
                 .before = query_value(*values, "before_id")};
  if (!values->contains("limit")) return read;
  const std::string text = query_value(*values, "limit");
  const auto limit = limit_of(text);
  if (!limit) {
    return fault("limit",
                 "\"limit\" is " + in_quotes(text) + " – it must be a whole number from 1 to 1000");
  }
  read.limit = *limit;
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
  auto page = read_page(query);
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
