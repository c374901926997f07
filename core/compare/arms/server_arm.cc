#include "core/compare/arms/server_arm.h"

#include <algorithm>

#include "core/base/digest/sha256.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/compare/replay/replay.h"
#include "core/report/pages/answer_text.h"

namespace tenon::compare {
namespace {

double to_ms(int64_t ns) {
  return static_cast<double>(ns) * 1e-6;
}

Result<client::Question> question_of(const Prompt& prompt, const std::string& model) {
  if (prompt.grammar) {
    return unsupported(
        "a prompt asks for a grammar – servers are not asked for one here – leave it out");
  }
  client::Question out;
  out.model = model;
  out.text = prompt.text;
  out.tokens = prompt.tokens;
  out.answer = prompt.answer;
  out.priority = prompt.priority;
  TENON_ASSIGN_OR_RETURN(const std::string body, client::body_of(out));
  static_cast<void>(body);
  return out;
}

std::string hash_of(const client::AnswerSample& sample) {
  return sha256_hex(std::as_bytes(std::span(sample.tokens))).substr(0, 16);
}

// One sample of an answer, and its gaps.
RequestRow row_of(const client::LoadRow& row, uint32_t number, int64_t start_ns,
                  std::vector<double>& gaps) {
  const client::Answer& answer = row.answer;
  const client::AnswerSample& sample = answer.samples[number];
  RequestRow out;
  out.index = static_cast<uint32_t>(row.index);
  out.sample = number;
  out.prompt_tokens = answer.prompt_tokens;
  out.reused_tokens = answer.cached_tokens;
  const auto samples = static_cast<uint32_t>(answer.samples.size());
  out.tokens = samples == 1 ? answer.tokens : static_cast<uint32_t>(sample.token_ns.size());
  out.arrival_ms = to_ms(row.due_ns - start_ns);
  out.latency_ms = to_ms(answer.end_ns - row.due_ns);
  if (answer.first_ns >= 0) out.ttft_ms = to_ms(answer.first_ns - row.due_ns);
  if (out.tokens > 1 && !sample.token_ns.empty()) {
    out.tpot_ms = to_ms(sample.token_ns.back() - sample.token_ns.front()) / (out.tokens - 1);
  }
  for (size_t i = 1; i < sample.token_ns.size(); ++i) {
    gaps.push_back(to_ms(sample.token_ns[i] - sample.token_ns[i - 1]));
    out.longest_gap_ms = std::max(out.longest_gap_ms, gaps.back());
  }
  out.finish = sample.finish;
  if (!sample.tokens.empty()) out.answer = hash_of(sample);
  out.text = text_hash(sample.text);
  return out;
}

}  // namespace

Result<std::unique_ptr<ServerArm>> ServerArm::open(const client::ServerSettings& server,
                                                   std::string model) {
  TENON_ASSIGN_OR_RETURN(auto session, client::Session::open(server));
  TENON_ASSIGN_OR_RETURN(const std::vector<std::string> models, session->models());
  if (model.empty() && models.size() != 1) {
    return invalid_argument(session->address() + " serves " + std::to_string(models.size()) +
                            " models (" + one_line(join(models)) +
                            ") – one is compared – say which (model)");
  }
  if (model.empty()) model = models.front();
  return std::unique_ptr<ServerArm>(new ServerArm(std::move(session), std::move(model)));
}

Result<Json> ServerArm::answer(const Json& order) {
  const std::string what = order.value("do", "");
  if (what == "describe") return describe();
  if (what == "load") return load(order);
  if (what == "run") return run(order);
  return unsupported("a server is not asked for that: " + what);
}

Json ServerArm::describe() const {
  MeasuredArm arm;
  arm.is_server = true;
  arm.numerics = "of a server";
  arm.resolved = "[server]\nurl = " + Json(session_->address()).dump() +
                 "\nmodel = " + Json(model_).dump() + "\n";
  arm.hash = sha256_hex(arm.resolved).substr(0, 16);
  return arm_json(arm);
}

Result<Json> ServerArm::load(const Json& order) {
  TENON_ASSIGN_OR_RETURN(const std::vector<Prompt> prompts,
                         read_replay_prompts(order.at("workload").get<std::string>(),
                                             order.at("max_tokens").get<uint32_t>(),
                                             order.at("vocabulary").get<uint32_t>()));
  plan_ = {.requests = {}, .in_flight = order.at("in_flight").get<uint32_t>()};
  std::vector<int64_t> arrivals;
  for (size_t i = 0; i < prompts.size(); ++i) {
    Result<client::Question> question = question_of(prompts[i], model_);
    if (!question.ok()) return with_context("request " + std::to_string(i), question.status());
    plan_.requests.push_back({.question = *std::move(question), .due_ns = prompts[i].arrival_ns});
    arrivals.push_back(prompts[i].arrival_ns);
  }
  return Json{{"requests", arrivals.size()}, {"arrivals_ns", std::move(arrivals)}};
}

Result<Json> ServerArm::run(const Json& order) {
  if (order.contains("arrivals_ns")) {
    const auto arrivals = order.at("arrivals_ns").get<std::vector<int64_t>>();
    for (size_t i = 0; i < std::min(arrivals.size(), plan_.requests.size()); ++i) {
      plan_.requests[i].due_ns = arrivals[i];
    }
  }
  // A server that knows no salt keeps its cache: what it says to have found there is reported.
  const bool cold = !order.at("warm").get<bool>() && !order.at("keep").get<bool>();
  const std::string salt = cold ? "piece " + std::to_string(order.at("salt").get<uint64_t>()) : "";
  if (order.at("warm").get<bool>()) {
    TENON_ASSIGN_OR_RETURN(const MeasuredPiece before, replay(salt));
    static_cast<void>(before);
  }
  TENON_ASSIGN_OR_RETURN(const MeasuredPiece piece, replay(salt));
  return run_answer(piece);
}

Result<MeasuredPiece> ServerArm::replay(const std::string& cache_salt) {
  for (client::LoadRequest& request : plan_.requests) request.question.cache_salt = cache_salt;
  std::vector<client::LoadRow> rows;
  Status failure;
  const client::LoadResult result = client::run_load(*session_, plan_, [&](client::LoadRow row) {
    if (!row.answer.ok() && failure.ok()) {
      failure = failed("request " + std::to_string(row.index) + " failed (" +
                       std::string(client::trouble_name(row.answer.trouble)) +
                       "): " + one_line(row.answer.message));
    }
    rows.push_back(std::move(row));
  });
  if (!failure.ok()) return failure;
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return a.index < b.index; });
  MeasuredPiece out;
  out.seconds = static_cast<double>(result.end_ns - result.start_ns) * 1e-9;
  std::vector<double> gaps;
  for (const client::LoadRow& row : rows) {
    out.generated_tokens += row.answer.tokens;
    for (uint32_t number = 0; number < row.answer.samples.size(); ++number) {
      out.requests.push_back(row_of(row, number, result.start_ns, gaps));
    }
  }
  out.gap_ms = quantiles_of(gaps);
  return out;
}

}  // namespace tenon::compare
