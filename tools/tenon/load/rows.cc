#include "tools/tenon/load/rows.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/digest/sha256.h"
#include "core/workload/draw.h"
#include "tools/tenon/process/json_text.h"

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

double to_ms(int64_t ns) {
  return static_cast<double>(ns) * 1e-6;
}

Result<client::Question> question_of(const LoadWork& work, Prompt prompt) {
  client::Question question{.model = work.model,
                            .chat = work.chat,
                            .text = std::move(prompt.text),
                            .tokens = std::move(prompt.tokens),
                            .answer = std::move(prompt.answer),
                            .stream = work.stream,
                            .usage = work.usage,
                            .priority = prompt.priority};
  if (!question.answer.max_tokens) question.answer.max_tokens = work.max_tokens;
  if (prompt.grammar) {
    return unsupported(
        "it holds its answer to a form – a load asks for answers without one – take it out");
  }
  if (!prompt.drawn.empty()) {
    if (work.vocabulary == 0) {
      return invalid_argument(
          "its prompt is drawn token ids – that needs the size of the model's vocabulary – give "
          "--vocabulary");
    }
    question.tokens = drawn_prompt(prompt.drawn, work.vocabulary);
  }
  const Result<std::string> body = client::body_of(question);
  if (!body.ok()) return copy(body.status());
  return question;
}

std::string hash_of(const std::vector<client::AnswerSample>& samples) {
  std::string text;
  for (const client::AnswerSample& sample : samples) text += sample.text + '\0';
  return sha256_hex(std::as_bytes(std::span(text))).substr(0, 16);
}

// From the first token to the last, a token: over the server's own count, where it gives one.
double time_per_token_ms(const client::Answer& answer) {
  if (answer.samples.size() != 1 || answer.first_ns < 0 || answer.tokens < 2) return -1;
  return to_ms(answer.samples[0].token_ns.back() - answer.first_ns) / (answer.tokens - 1);
}

}  // namespace

Result<std::vector<client::LoadRequest>> load_requests(const LoadWork& work) {
  const bool lines = work.is_prompts && !work.path.ends_with(".toml");
  TENON_ASSIGN_OR_RETURN(std::vector<Prompt> prompts,
                         lines ? read_prompt_file(work.path) : read_work(work.path));
  WorkloadDraw draw(work.seed);
  int64_t poisson_ns = 0;
  std::vector<client::LoadRequest> requests;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const int64_t due_ns = work.rate > 0 ? poisson_ns : prompts[i].arrival_ns;
    Result<client::Question> question = question_of(work, std::move(prompts[i]));
    if (!question.ok()) return with_context("request " + std::to_string(i), question.status());
    requests.push_back({*std::move(question), due_ns});
    if (work.rate > 0) poisson_ns += draw.gap_ns(work.rate);
  }
  return requests;
}

LoadSample load_sample(const client::LoadRow& row, int64_t start_ns) {
  const client::Answer& answer = row.answer;
  LoadSample out;
  out.index = row.index;
  out.due_ms = to_ms(row.due_ns - start_ns);
  out.late_ms = to_ms(answer.sent_ns - row.due_ns);
  if (answer.first_ns >= 0) out.ttft_ms = to_ms(answer.first_ns - row.due_ns);
  out.latency_ms = to_ms(answer.end_ns - row.due_ns);
  for (const client::AnswerSample& sample : answer.samples) {
    for (size_t i = 1; i < sample.token_ns.size(); ++i) {
      out.gaps_ms.push_back(to_ms(sample.token_ns[i] - sample.token_ns[i - 1]));
    }
  }
  out.tpot_ms = time_per_token_ms(answer);
  out.prompt_tokens = answer.prompt_tokens;
  out.tokens = answer.tokens;
  out.cached_tokens = answer.cached_tokens;
  out.counted_by = client::counted_by_name(answer.counted_by);
  if (!answer.ok()) out.trouble = client::trouble_name(answer.trouble);
  out.message = answer.message;
  out.status = answer.status;
  if (!answer.samples.empty()) out.finish = answer.samples[0].finish;
  out.answer = hash_of(answer.samples);
  return out;
}

std::string load_row_json(const LoadSample& sample, const client::Answer* with_text) {
  const auto or_null = [](double value) { return value < 0 ? Json() : Json(value); };
  const double longest =
      sample.gaps_ms.empty() ? -1 : *std::max_element(sample.gaps_ms.begin(), sample.gaps_ms.end());
  Json row = {{"index", sample.index},
              {"due_ms", sample.due_ms},
              {"late_ms", sample.late_ms},
              {"ttft_ms", or_null(sample.ttft_ms)},
              {"tpot_ms", or_null(sample.tpot_ms)},
              {"longest_gap_ms", or_null(longest)},
              {"latency_ms", sample.latency_ms},
              {"prompt_tokens", sample.prompt_tokens},
              {"tokens", sample.tokens},
              {"cached_tokens", sample.cached_tokens},
              {"counted_by", sample.counted_by},
              {"status", sample.status},
              {"error", sample.ok() ? Json() : Json(sample.trouble)},
              {"message", sample.message},
              {"finish", sample.finish},
              {"answer", sample.answer}};
  if (with_text != nullptr) {
    Json texts = Json::array();
    for (const client::AnswerSample& one : with_text->samples) texts.push_back(one.text);
    row["texts"] = std::move(texts);
  }
  return json_text(row, -1);
}

}  // namespace tenon
