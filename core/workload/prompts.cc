#include "core/workload/prompts.h"

#include <array>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/files/given_text.h"
#include "core/base/json/json_builder.h"
#include "core/base/quote.h"
#include "core/request/parameters.h"
#include "core/server/api/parameters/answer_json.h"
#include "core/workload/published_trace.h"

namespace tenon {
namespace {

using grammar::GrammarKind;
using grammar::GrammarSpec;
using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 4> kGrammarKeys = {"json_schema", "json_object", "regex",
                                                          "grammar"};

// Parsed JSON takes far more memory than its text.
constexpr size_t kMostLineBytes = size_t{16} << 20;
// One level more than a schema may have, which stands in the line.
constexpr JsonLimits kLineLimits = {.levels = 65, .keys = 4096};

Status bad_field(std::string_view key, std::string_view expected) {
  return invalid_argument("\"" + std::string(key) + "\" must be " + std::string(expected));
}

Status read_prompt(const Json& object, Prompt& out) {
  const auto prompt = object.find("prompt");
  if (prompt == object.end()) return invalid_argument("there is no \"prompt\"");
  if (prompt->is_string()) {
    out.text = prompt->get<std::string>();
    return {};
  }
  if (!prompt->is_array()) return bad_field("prompt", "a text or a list of token ids");
  out.tokens.emplace();
  for (const Json& id : *prompt) {
    const WrittenNumber written = written_json(id);
    if (std::holds_alternative<std::string>(written)) {
      return bad_field("prompt", "a text or a list of token ids");
    }
    if (std::string fault = id_fault("prompt", written); !fault.empty()) {
      return invalid_argument(fault);
    }
    out.tokens->push_back(static_cast<TokenId>(std::get<int64_t>(written)));
  }
  return {};
}

// Members keep their order: that of a schema is the answer's. JSON's own readers keep the last of
// several members of one name.
Result<Json> parse_object(const std::string& line) {
  if (line.size() > kMostLineBytes) {
    return invalid_argument("the line has " + std::to_string(line.size()) + " bytes; at most " +
                            std::to_string(kMostLineBytes) + " are read");
  }
  Json object;
  const JsonFault fault = build_json(line, kLineLimits, object);
  if (fault.kind == JsonFault::Kind::levels) {
    return invalid_argument("the line is nested deeper than " + std::to_string(kLineLimits.levels) +
                            " levels – make it flatter");
  }
  if (fault.kind == JsonFault::Kind::keys) {
    return invalid_argument("an object of the line has more than " +
                            std::to_string(kLineLimits.keys) +
                            " keys – that is the limit – write fewer");
  }
  if (fault.kind == JsonFault::Kind::twice) {
    return invalid_argument("\"" + one_line(fault.text) +
                            "\" stands there twice – each key may once – keep one");
  }
  if (fault.kind == JsonFault::Kind::syntax || !object.is_object()) {
    return invalid_argument("not a JSON object; expected {\"prompt\": …}");
  }
  return object;
}

// The member that says what the answer must look like; null where the object has none.
Result<std::optional<GrammarSpec>> read_grammar_json(const Json& object) {
  std::optional<GrammarSpec> spec;
  for (const std::string_view key : kGrammarKeys) {
    const auto found = object.find(key);
    if (found == object.end() || found->is_null()) continue;
    if (spec) {
      return invalid_argument(
          "json_schema, json_object, regex and grammar exclude each other – leave all but one out");
    }
    const auto fault = [&](std::string_view expected) {
      return invalid_argument("\"" + std::string(key) + "\" must be " + std::string(expected));
    };
    if (key == "json_object") {
      if (!found->is_boolean()) return fault("true or false");
      if (found->get<bool>()) spec = GrammarSpec{GrammarKind::json_object, ""};
      continue;
    }
    const bool is_schema = key == "json_schema";
    if (!found->is_string() && !is_schema) return fault("a text");
    const GrammarKind kind = is_schema        ? GrammarKind::json_schema
                             : key == "regex" ? GrammarKind::regex
                                              : GrammarKind::gbnf;
    spec = GrammarSpec{kind, found->is_string() ? found->get<std::string>() : found->dump()};
  }
  return spec;
}

Result<Prompt> parse_json_prompt(const std::string& line) {
  TENON_ASSIGN_OR_RETURN(const Json object, parse_object(line));
  Prompt prompt;
  TENON_RETURN_IF_ERROR(read_prompt(object, prompt));
  TENON_ASSIGN_OR_RETURN(prompt.grammar, read_grammar_json(object));
  std::vector<std::string_view> keys(kGrammarKeys.begin(), kGrammarKeys.end());
  keys.push_back("prompt");
  TENON_RETURN_IF_ERROR(read_answer_json(object, "a prompt", keys, prompt.answer));
  return prompt;
}

}  // namespace

Result<std::vector<Prompt>> read_prompt_file(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const std::string text, read_given_text(path));
  const bool json = path.ends_with(".jsonl");
  std::vector<Prompt> prompts;
  std::istringstream lines(text);
  std::string line;
  for (size_t number = 1; std::getline(lines, line); ++number) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    if (!json) {
      prompts.emplace_back().text = line;
      continue;
    }
    Result<Prompt> prompt = parse_json_prompt(line);
    if (!prompt.ok()) {
      return with_context(path + ":" + std::to_string(number), prompt.status());
    }
    prompts.push_back(*std::move(prompt));
  }
  if (prompts.empty())
    return invalid_argument(path_in_quotes(path) + " has no prompts; expected one a line");
  return prompts;
}

Prompt prompt_of(const WorkloadRequest& request) {
  Prompt prompt;
  prompt.text = request.prompt;
  prompt.drawn = request.drawn;
  prompt.arrival_ns = request.arrival_ns;
  prompt.priority = request.priority;
  prompt.tenant = request.tenant;
  prompt.deadline_ns = request.deadline_ns;
  AnswerSettings& answer = prompt.answer;
  answer = request.answer;
  answer.max_tokens = request.max_tokens;
  answer.ignore_eos = request.ignore_eos;
  return prompt;
}

namespace {

std::vector<Prompt> prompts_of(const Workload& workload) {
  std::vector<Prompt> prompts;
  prompts.reserve(workload.requests.size());
  for (const WorkloadRequest& request : workload.requests) prompts.push_back(prompt_of(request));
  return prompts;
}

}  // namespace

Result<std::vector<Prompt>> read_workload_prompts(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const Workload workload, read_workload(path));
  return prompts_of(workload);
}

Result<std::vector<Prompt>> read_work(const std::string& path) {
  if (path.ends_with(".toml")) return read_workload_prompts(path);
  if (!is_trace(path)) return read_prompt_file(path);
  TENON_ASSIGN_OR_RETURN(const Workload workload, read_trace_workload(path));
  return prompts_of(workload);
}

}  // namespace tenon
