#include "core/config/workload.h"

#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <span>

#include "core/base/mapped_file.h"
#include "core/base/origin.h"
#include "core/base/text.h"

namespace tenon {
namespace {

constexpr size_t kMaxRequests = 1'000'000;

constexpr std::array<std::string_view, 4> kFileKeys = {"format", "title", "ignore_eos", "request"};
constexpr std::array<std::string_view, 8> kRequestKeys = {
    "prompt", "max_tokens", "samples", "ignore_eos", "arrival", "priority", "seed", "temperature"};

// Reads the members of one table and collects what is wrong with them.
class TableReader {
 public:
  TableReader(const std::string& name, std::vector<std::string>& errors)
      : name_(name), errors_(errors) {}

  void expect_known(const toml::table& table, std::span<const std::string_view> known) {
    const std::vector<std::string> words(known.begin(), known.end());
    for (const auto& [key, node] : table) {
      const std::string word(key.str());
      if (std::find(words.begin(), words.end(), word) != words.end()) continue;
      error(key.source(), "'" + word + "' is no key of a workload" + did_you_mean(word, words));
    }
  }

  void text(const toml::table& table, std::string_view key, std::string& out) {
    const toml::node* node = table.get(key);
    if (node == nullptr) return;
    if (const auto* value = node->as_string()) {
      out = value->get();
    } else {
      error(node->source(), "'" + std::string(key) + "' must be text in quotes");
    }
  }

  void flag(const toml::table& table, std::string_view key, bool& out) {
    const toml::node* node = table.get(key);
    if (node == nullptr) return;
    if (const auto* value = node->as_boolean()) {
      out = value->get();
    } else {
      error(node->source(), "'" + std::string(key) + "' must be true or false");
    }
  }

  std::optional<int64_t> integer(const toml::table& table, std::string_view key, int64_t min,
                                 int64_t max) {
    const toml::node* node = table.get(key);
    if (node == nullptr) return std::nullopt;
    const auto* value = node->as_integer();
    if (value != nullptr && value->get() >= min && value->get() <= max) return value->get();
    error(node->source(), "'" + std::string(key) + "' must be a whole number from " +
                              std::to_string(min) + " to " + std::to_string(max));
    return std::nullopt;
  }

  std::optional<double> real(const toml::table& table, std::string_view key, double min,
                             double max) {
    const toml::node* node = table.get(key);
    if (node == nullptr) return std::nullopt;
    const std::optional<double> value = node->value<double>();
    if (value && *value >= min && *value <= max) return value;
    error(node->source(), "'" + std::string(key) + "' must be a number from " + format_real(min) +
                              " to " + format_real(max));
    return std::nullopt;
  }

  void duration(const toml::table& table, std::string_view key, int64_t& out_ns) {
    const toml::node* node = table.get(key);
    if (node == nullptr) return;
    const auto* value = node->as_string();
    const auto parsed = value == nullptr ? std::nullopt : parse_duration_ns(value->get());
    if (parsed && *parsed >= 0) {
      out_ns = *parsed;
    } else {
      error(node->source(), "'" + std::string(key) + "' must be a time such as \"1.5s\"");
    }
  }

  void error(const toml::source_region& where, const std::string& message) {
    const Origin origin{name_, where.begin.line, where.begin.column};
    errors_.push_back(origin.text() + ": " + message);
  }

 private:
  const std::string& name_;
  std::vector<std::string>& errors_;
};

WorkloadRequest read_request(TableReader& reader, const toml::table& table, bool ignore_eos) {
  WorkloadRequest request;
  request.ignore_eos = ignore_eos;
  reader.expect_known(table, kRequestKeys);
  reader.text(table, "prompt", request.prompt);
  if (table.get("prompt") == nullptr) reader.error(table.source(), "a request has no 'prompt'");
  if (table.get("max_tokens") == nullptr) {
    reader.error(table.source(), "a request has no 'max_tokens'");
  }
  request.max_tokens =
      static_cast<uint32_t>(reader.integer(table, "max_tokens", 1, 1 << 24).value_or(1));
  request.samples = static_cast<uint32_t>(reader.integer(table, "samples", 1, 1024).value_or(1));
  reader.flag(table, "ignore_eos", request.ignore_eos);
  reader.duration(table, "arrival", request.arrival_ns);
  request.priority =
      static_cast<int32_t>(reader.integer(table, "priority", INT32_MIN, INT32_MAX).value_or(0));
  if (const auto seed = reader.integer(table, "seed", 0, INT64_MAX)) {
    request.seed = static_cast<uint64_t>(*seed);
  }
  request.temperature = reader.real(table, "temperature", 0.0, 100.0);
  return request;
}

Result<Workload> read_table(const toml::table& table, const std::string& name) {
  std::vector<std::string> errors;
  TableReader reader(name, errors);
  reader.expect_known(table, kFileKeys);
  Workload workload;
  workload.path = name;
  bool ignore_eos = true;
  if (table.get("format") == nullptr) {
    reader.error(table.source(), "'format' is missing – write format = 1");
  }
  (void)reader.integer(table, "format", 1, 1);
  reader.text(table, "title", workload.title);
  reader.flag(table, "ignore_eos", ignore_eos);
  const toml::node* list = table.get("request");
  const toml::array* requests = list == nullptr ? nullptr : list->as_array();
  if (requests == nullptr || requests->empty()) {
    reader.error(table.source(), "there are no requests – write a [[request]] for each");
  } else if (requests->size() > kMaxRequests) {
    reader.error(requests->source(), "there are " + std::to_string(requests->size()) +
                                         " requests – at most " + std::to_string(kMaxRequests) +
                                         " are read");
  } else {
    for (const toml::node& node : *requests) {
      if (const toml::table* request = node.as_table()) {
        workload.requests.push_back(read_request(reader, *request, ignore_eos));
      } else {
        reader.error(node.source(), "a request must be a [[request]] table");
      }
    }
  }
  if (!errors.empty()) return invalid_argument(join(errors, "\n"));
  return workload;
}

}  // namespace

Result<Workload> parse_workload(std::string_view text, const std::string& name) {
  try {
    return read_table(toml::parse(text, name), name);
  } catch (const toml::parse_error& error) {
    const Origin at{name, error.source().begin.line, error.source().begin.column};
    return invalid_argument(at.text() + ": not TOML: " + std::string(error.description()));
  } catch (const std::exception& error) {
    return invalid_argument(name + ": cannot be read as TOML: " + error.what());
  }
}

Result<Workload> read_workload(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const std::string text, read_text_file(path));
  return parse_workload(text, path);
}

}  // namespace tenon
