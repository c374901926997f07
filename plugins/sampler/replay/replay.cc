// Emits recorded tokens whatever the logits: the text of simulations, and a test's way to say what
// a model answers.
//
// `tokens` holds one recording or several, separated by ';'. The n-th sequence that begins without
// a parent speaks the n-th recording (cyclic); forks speak their parent's. The i-th generated token
// is the i-th of the recording, from its beginning again when it ends. Tokens are judged by their
// place alone, so a preempted sequence goes on where it was, and drafts are accepted exactly.
#include <tenon/sampler.h>
#include <tenon/sdk/plugin.h>
#include <tenon/sdk/sampler/draft_tree.h>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace tenon {
namespace {

struct Options {
  std::string_view tokens;
};
constexpr OptionSpec make_tokens() {
  OptionSpec spec = sdk::text<&Options::tokens>(
      "tokens", "", "ids to emit, such as \"5 6 7; 8 9\": one recording a sequence");
  spec.required = true;
  return spec;
}
constexpr OptionSpec kOptions[] = {make_tokens()};
TENON_CHECK_OPTIONS(kOptions);

using Recordings = std::vector<std::vector<TokenId>>;

Status no_id(std::string_view text, const char* at) {
  const auto column = static_cast<size_t>(at - text.data());
  return Status::error(StatusCode::invalid_argument,
                       "option tokens: '" + std::string(text.substr(column, 12)) +
                           "' at character " + std::to_string(column + 1) +
                           " is no token id – write ids separated by spaces, recordings by ';'");
}

Status parse(std::string_view text, Recordings& out) {
  out.assign(1, {});
  const char* at = text.data();
  const char* end = at + text.size();
  bool behind_id = false;  // only there may a comma stand
  while (at != end) {
    if (*at == ';') out.emplace_back();
    const bool comma = *at == ',';
    if (comma && !behind_id) return no_id(text, at);
    if (comma || *at == ';') behind_id = false;
    if (*at == ';' || *at == ' ' || *at == ',' || *at == '\n' || *at == '\t' || *at == '\r') {
      ++at;
      continue;
    }
    TokenId token = kNoToken;
    const auto [next, error] = std::from_chars(at, end, token);
    if (error != std::errc() || token < 0) return no_id(text, at);
    out.back().push_back(token);
    behind_id = true;
    at = next;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    if (!out[i].empty()) continue;
    return Status::error(StatusCode::invalid_argument,
                         "option tokens: recording " + std::to_string(i + 1) +
                             " is empty – each needs at least one token id");
  }
  return {};
}

class ReplaySampler {
 public:
  ReplaySampler(const HostServices&, const PipelineFacts&, const Options& options) {
    // Checked before by `validate`.
    (void)parse(options.tokens, recordings_);
  }

  void begin(SeqId seq, const SamplingParams&, SeqId parent) {
    const std::lock_guard lock(mutex_);
    const auto from = voices_.find(parent);
    const size_t voice = from != voices_.end() ? from->second : next_++ % recordings_.size();
    voices_[seq] = voice;
  }
  void end(SeqId seq) {
    const std::lock_guard lock(mutex_);
    voices_.erase(seq);
  }

  void sample(std::span<const SampleRow> rows, std::span<SampleResult> results) {
    for (size_t i = 0; i < rows.size(); ++i) {
      results[i].token = token_for(rows[i], rows[i].history.size());
    }
  }
  Status verify(std::span<const VerifyRows> rows, std::span<VerifyResult> results) {
    for (size_t i = 0; i < rows.size(); ++i) {
      if (Status status = sdk::check_tree(rows[i], results[i]); !status.ok()) return status;
      size_t known = rows[i].rows[0].history.size();
      sdk::walk_drafts(rows[i], results[i], [&](size_t row, SampleResult& result) {
        result.token = token_for(rows[i].rows[row], known++);
      });
    }
    return {};
  }
  void distribution(const SampleRow& row, std::span<float> probs) {
    std::fill(probs.begin(), probs.end(), 0.0f);
    const TokenId token = token_for(row, row.history.size());
    if (token != kNoToken) probs[static_cast<size_t>(token)] = 1.0f;
  }

 private:
  // After `known` tokens.
  TokenId token_for(const SampleRow& row, size_t known) const {
    if (row.score != kNoToken) return row.score;
    const std::lock_guard lock(mutex_);
    const auto voice = voices_.find(row.seq);
    if (voice == voices_.end()) return kNoToken;
    const std::vector<TokenId>& recording = recordings_[voice->second];
    const TokenId token = recording[(known - row.prompt_tokens) % recording.size()];
    return static_cast<uint32_t>(token) < row.vocabulary ? token : kNoToken;
  }

  Recordings recordings_;
  mutable std::mutex mutex_;  // `sample` may run on several threads
  std::unordered_map<SeqId, size_t> voices_;
  size_t next_ = 0;
};

Status validate(const void* options) noexcept {
  return sdk::guard([&] {
    Recordings recordings;
    return parse(static_cast<const Options*>(options)->tokens, recordings);
  });
}

constexpr Fact kProvides[] = {
    {.key = "sampler.verify", .op = FactOp::in, .number = 0, .words = "exact"},
    {.key = "sampler.trees", .op = FactOp::in, .number = 0, .words = "none exact"},
    // A recording is what it is, whatever else a request asks for.
    {.key = "sampler.stages",
     .op = FactOp::in,
     .number = 0,
     .words = "penalties dry temperature top_n_sigma top_k typical_p top_p min_p xtc bias bans "
              "mirostat watermark"},
};
constexpr PluginDescriptor kReplay = [] {
  PluginDescriptor made =
      sdk::with_facts(sdk::descriptor<Sampler, ReplaySampler, Options>(
                          {.id = "replay",
                           .version = "1.0.0",
                           .summary = "emits recorded tokens whatever the model says",
                           .license = "Apache-2.0"},
                          kOptions),
                      kProvides);
  made.validate = &validate;
  return made;
}();

}  // namespace
}  // namespace tenon
TENON_PLUGIN_LIBRARY(&tenon::kReplay)
