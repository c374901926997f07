// A sampler whose draws are Python's. Bans, scores and log probabilities are done here; nothing
// watches whether the class draws from its key alone, so that its rows count as dependent on the
// batch, and executor.deterministic refuses it.
#include <tenon/sampler.h>
#include <tenon/sdk/plugin.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <unordered_map>

#include "plugins/bridge/options.h"

namespace tenon::bridge {
namespace {

struct Options {
  std::string_view file, name, arguments, key, libpython;
};
TENON_CHECK_OPTIONS(kPythonOptions<Options>);

constexpr float kNever = -std::numeric_limits<float>::infinity();

float logit_of(float logit) {
  return std::isnan(logit) ? kNever : logit;
}

// log(sum(exp(logits))), as every row's log probabilities need it.
double log_sum(const SampleRow& row) {
  double most = kNever, sum = 0.0;
  for (uint32_t i = 0; i < row.vocabulary; ++i) {
    most = std::max<double>(most, logit_of(row.logits[i]));
  }
  if (std::isinf(most)) return most;
  for (uint32_t i = 0; i < row.vocabulary; ++i) sum += std::exp(logit_of(row.logits[i]) - most);
  return most + std::log(sum);
}

void tell_logprobs(const SampleRow& row, SampleResult& result) {
  const double whole = log_sum(row);
  const float own = logit_of(row.logits[result.token]);
  const auto logprob = [&](uint32_t token) {
    return static_cast<float>(logit_of(row.logits[token]) - whole);
  };
  result.logprob = logprob(static_cast<uint32_t>(result.token));
  result.rank = 1;
  std::vector<uint32_t> order(row.vocabulary);
  for (uint32_t i = 0; i < row.vocabulary; ++i) {
    order[i] = i;
    if (logit_of(row.logits[i]) > own) ++result.rank;
  }
  const size_t count = std::min<size_t>(result.top.size(), order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
                    [&](uint32_t a, uint32_t b) {
                      const float first = logit_of(row.logits[a]), second = logit_of(row.logits[b]);
                      return first != second ? first > second : a < b;
                    });
  for (size_t i = 0; i < count; ++i) {
    result.top[i] = {static_cast<TokenId>(order[i]), logprob(order[i])};
  }
  result.top_count = static_cast<uint32_t>(count);
}

bool is_allowed(const SampleRow& row, uint32_t token) {
  return row.allowed == nullptr || (row.allowed[token / 64] >> (token % 64) & 1) != 0;
}

class PythonSampler {
 public:
  PythonSampler(const HostServices&, const PipelineFacts&, const Options& options)
      : plugin_("sampler", source_of(options)) {}

  void begin(SeqId seq, const SamplingParams& params, SeqId parent) {
    {
      const std::lock_guard lock(mutex_);
      wants_logprobs_[seq] = params.logprobs > 0;
    }
    const Locked locked(plugin_.api());
    std::vector<Object> given;
    given.push_back(plugin_.whole(seq));
    given.push_back(plugin_.integer(parent == kNoSeq ? -1 : int64_t{parent}));
    std::vector<Object> pairs;
    const auto pair = [&](const char* name, Object value) {
      std::vector<Object> both;
      both.push_back(plugin_.text(name));
      both.push_back(std::move(value));
      pairs.push_back(plugin_.tuple(std::move(both)));
    };
    pair("temperature", plugin_.real(params.temperature));
    pair("top_k", plugin_.whole(params.top_k));
    pair("top_p", plugin_.real(params.top_p));
    pair("min_p", plugin_.real(params.min_p));
    pair("seed", plugin_.whole(params.seed));
    given.push_back(plugin_.list(std::move(pairs)));
    plugin_.call("begin", std::move(given));
  }
  void end(SeqId seq) {
    {
      const std::lock_guard lock(mutex_);
      wants_logprobs_.erase(seq);
    }
    const Locked locked(plugin_.api());
    std::vector<Object> given;
    given.push_back(plugin_.whole(seq));
    plugin_.call("end", std::move(given));
  }

  void sample(std::span<const SampleRow> rows, std::span<SampleResult> results) {
    for (size_t i = 0; i < rows.size(); ++i) draw(rows[i], results[i]);
  }
  // Exactly: a draft counts if it is what would have been drawn.
  void verify(std::span<const VerifyRows> all, std::span<VerifyResult> results) {
    for (size_t i = 0; i < all.size(); ++i) {
      const VerifyRows& rows = all[i];
      VerifyResult& result = results[i];
      result.count = 0;
      for (size_t row = 0; row < rows.rows.size(); ++row) {
        draw(rows.rows[row], result.tokens[row]);
        if (result.tokens[row].token == kNoToken) break;
        result.count = static_cast<uint32_t>(row + 1);
        if (row == rows.drafts.size() || result.tokens[row].token != rows.drafts[row]) break;
        if (row < result.path.size()) result.path[row] = static_cast<uint32_t>(row);
      }
    }
  }

 private:
  void draw(const SampleRow& row, SampleResult& result) {
    result.token = row.score != kNoToken ? row.score : choose(row);
    if (result.token == kNoToken) return;
    if (row.score != kNoToken || !result.top.empty() || wants_logprobs(row.seq)) {
      tell_logprobs(row, result);
    }
  }

  // Python sees what is banned as -inf.
  TokenId choose(const SampleRow& row) {
    std::vector<float> logits(row.vocabulary);
    bool any = false;
    for (uint32_t i = 0; i < row.vocabulary; ++i) {
      logits[i] = is_allowed(row, i) ? logit_of(row.logits[i]) : kNever;
      any = any || std::isfinite(logits[i]);
    }
    if (!any) return kNoToken;
    const Locked locked(plugin_.api());
    std::vector<Object> given;
    given.push_back(plugin_.whole(row.seq));
    given.push_back(plugin_.memory(logits.data(), logits.size() * sizeof(float)));
    given.push_back(plugin_.memory(row.history.data(), row.history.size_bytes()));
    given.push_back(plugin_.whole(row.prompt_tokens));
    given.push_back(plugin_.whole(row.key.seed));
    given.push_back(plugin_.whole(row.key.sample));
    given.push_back(plugin_.whole(row.key.position));
    const Object drawn = plugin_.call("draw", std::move(given));
    const long long token = plugin_.api().to_int(drawn.get());
    if (plugin_.api().error() != nullptr) plugin_.api().clear_error();
    const bool is_token = token >= 0 && token < row.vocabulary;
    if (!is_token || logits[static_cast<size_t>(token)] == kNever) {
      throw std::runtime_error("sample gave " + std::to_string(token) +
                               ", which is no token that may be drawn here");
    }
    return static_cast<TokenId>(token);
  }

  bool wants_logprobs(SeqId seq) {
    const std::lock_guard lock(mutex_);
    const auto found = wants_logprobs_.find(seq);
    return found != wants_logprobs_.end() && found->second;
  }

  Plugin plugin_;
  std::mutex mutex_;
  std::unordered_map<SeqId, bool> wants_logprobs_;
};

constexpr Fact kProvides[] = {
    {.key = "sampler.verify", .op = FactOp::in, .number = 0, .words = "exact"},
    {.key = "sampler.trees", .op = FactOp::in, .number = 0, .words = "none"},
    {.key = "sampler.stages",
     .op = FactOp::in,
     .number = 0,
     .words = "temperature top_k top_p min_p"},
    {.key = "sampler.logprobs", .op = FactOp::at_most, .number = 1 << 20, .words = {}},
    {.key = "numerics.rows", .op = FactOp::in, .number = 0, .words = "batch"},
};

constexpr PluginDescriptor kSampler =
    sdk::with_facts(sdk::descriptor<Sampler, PythonSampler, Options>(
                        {.id = "python",
                         .version = "1.0.0",
                         .summary = "draws what a class in Python says, for trying ideas",
                         .license = "Apache-2.0"},
                        kPythonOptions<Options>),
                    kProvides);

}  // namespace
}  // namespace tenon::bridge
TENON_PLUGIN_LIBRARY(&tenon::bridge::kSampler)
