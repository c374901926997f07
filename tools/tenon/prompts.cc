#include "tools/tenon/prompts.h"

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/mapped_file.h"
#include "core/base/quote.h"
#include "core/config/workload.h"
#include "tools/tenon/answer_json.h"
#include "tools/tenon/standard_input.h"

namespace tenon {
namespace {

using Json = nlohmann::json;

// Parsed JSON takes far more memory than its text.
constexpr size_t kMostLineBytes = size_t{16} << 20;

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
    if (!id.is_number_integer()) return bad_field("prompt", "a text or a list of token ids");
    const int64_t value = id.get<int64_t>();
    if (value < 0 || value > std::numeric_limits<TokenId>::max()) {
      return invalid_argument("token id " + std::to_string(value) + " is out of range");
    }
    out.tokens->push_back(static_cast<TokenId>(value));
  }
  return {};
}

Result<Prompt> parse_json_prompt(const std::string& line) {
  if (line.size() > kMostLineBytes) {
    return invalid_argument("the line has " + std::to_string(line.size()) + " bytes; at most " +
                            std::to_string(kMostLineBytes) + " are read");
  }
  const Json object = Json::parse(line, nullptr, false);
  if (object.is_discarded() || !object.is_object()) {
    return invalid_argument("not a JSON object; expected {\"prompt\": …}");
  }
  Prompt prompt;
  TENON_RETURN_IF_ERROR(read_prompt(object, prompt));
  TENON_RETURN_IF_ERROR(read_answer_json(object, prompt.answer));
  return prompt;
}

}  // namespace

Result<std::vector<Prompt>> read_prompt_file(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const std::string text, read_text_file(path));
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

Result<std::vector<Prompt>> read_workload_prompts(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const Workload workload, read_workload(path));
  std::vector<Prompt> prompts;
  for (const WorkloadRequest& request : workload.requests) {
    Prompt& prompt = prompts.emplace_back();
    prompt.text = request.prompt;
    prompt.prefix = request.prefix;
    prompt.own = request.own;
    prompt.arrival_ns = request.arrival_ns;
    prompt.priority = request.priority;
    prompt.tenant = request.tenant;
    AnswerSettings& answer = prompt.answer;
    answer = request.answer;
    answer.max_tokens = request.max_tokens;
    // One is what every request has that says nothing: then --n counts.
    if (request.samples > 1) answer.samples = request.samples;
    answer.ignore_eos = request.ignore_eos;
    answer.seed = request.seed;
    if (request.temperature)
      answer.sampling[*find_sampling_key("temperature")] = request.temperature;
  }
  return prompts;
}

Result<Prompt> read_prompt_stdin() {
  Prompt prompt;
  TENON_ASSIGN_OR_RETURN(prompt.text, read_standard_input());
  if (!prompt.text.empty() && prompt.text.back() == '\n') prompt.text.pop_back();
  return prompt;
}

Result<std::vector<TokenId>> parse_token_list(std::string_view text) {
  std::vector<TokenId> tokens;
  size_t at = 0;
  const auto separator = [](char c) { return c == ',' || c == ' ' || c == '\n' || c == '\t'; };
  while (at < text.size()) {
    if (separator(text[at])) {
      ++at;
      continue;
    }
    TokenId id = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), id);
    const size_t next = static_cast<size_t>(end - text.data());
    if (error != std::errc() || (next < text.size() && !separator(text[next]))) {
      return invalid_argument(in_quotes(text.substr(at, 20)) +
                              " is not a token id; expected numbers separated by commas");
    }
    tokens.push_back(id);
    at = next;
  }
  if (tokens.empty()) return invalid_argument("there are no token ids; expected at least one");
  return tokens;
}

}  // namespace tenon
