#include "core/workload/request_table.h"

namespace tenon {
namespace {

// FNV-1a: streams of drawn tokens are named by text.
uint64_t stream_of(std::string_view name, uint64_t seed) {
  uint64_t hash = 14695981039346656037ull ^ seed;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211ull;
  return hash;
}

// The bytes that one more request takes, in addition to its own size.
uint64_t bytes_of(const WorkloadRequest& request) {
  const AnswerSettings& answer = request.answer;
  uint64_t bytes = request.prompt.size() +
                   sizeof(TokenId) * (answer.stop_tokens.size() + answer.allowed_tokens.size()) +
                   sizeof(LogitBias) * answer.logit_bias.size();
  for (const DrawnTokens& part : request.drawn) {
    bytes += sizeof(part) + sizeof(TokenId) * uint64_t{part.tokens};
  }
  for (const auto* texts : {&answer.stop, &answer.bad_words, &answer.dry_breakers}) {
    for (const std::string& text : *texts) bytes += sizeof(text) + text.size();
  }
  for (const VendorSetting& setting : answer.params) {
    bytes += sizeof(setting) + setting.key.size() + setting.text.size();
  }
  return bytes;
}

}  // namespace

std::vector<DrawnTokens> RequestExpansion::shared_parts(const RequestTable& table) const {
  std::vector<DrawnTokens> parts;
  if (table.prefix_tokens > 0) {
    parts.push_back({stream_of("prefix " + table.prefix, seed_), table.prefix_tokens});
  }
  for (const int64_t block : table.blocks) {
    parts.push_back({stream_of("block " + std::to_string(block), seed_), table.block_tokens});
  }
  if (!table.blocks.empty() && table.last_block_tokens > 0) {
    parts.back().tokens = table.last_block_tokens;
  }
  return parts;
}

bool RequestExpansion::expand(const RequestTable& table, std::vector<WorkloadRequest>& out) {
  int64_t arrival_ns = table.request.arrival_ns;
  for (uint32_t i = 0; i < table.count; ++i) {
    WorkloadRequest first = table.request;
    first.arrival_ns = 0;
    if (table.vary_seed) first.answer.seed = table.request.answer.seed.value_or(0) + i;
    const size_t begin = out.size();
    if (!add_conversation(table, std::move(first), out)) return false;
    // Lengths are drawn before arrivals, so that a file without `turns` means what it always did.
    if (table.rate && i > 0) arrival_ns += draw_.gap_ns(*table.rate, table.burstiness);
    for (size_t turn = begin; turn < out.size(); ++turn) {
      out[turn].arrival_ns += arrival_ns + table.every_ns * i;
    }
  }
  return true;
}

// Each turn's prompt is all of the conversation before it, with drawn tokens in place of answers:
// what a model answers is not known here, and must not decide how long prompts are.
bool RequestExpansion::add_conversation(const RequestTable& table, WorkloadRequest first,
                                        std::vector<WorkloadRequest>& out) {
  std::vector<DrawnTokens> before = shared_parts(table);
  for (uint32_t turn = 0; turn < table.turns; ++turn) {
    WorkloadRequest request = first;
    const std::string number = std::to_string(out.size());
    request.max_tokens = table.max_tokens ? draw_.length(*table.max_tokens) : 1;
    const auto& own = turn > 0 && table.turn_tokens ? table.turn_tokens : table.prompt_tokens;
    if (own) before.push_back({stream_of("request " + number, seed_), draw_.length(*own)});
    request.drawn = before;
    request.arrival_ns += table.think_ns * turn;
    before.push_back({stream_of("answer " + number, seed_), request.max_tokens});
    bytes_ += bytes_of(request);
    if (bytes_ > kMostWorkloadBytes) return false;
    out.push_back(std::move(request));
  }
  return true;
}

}  // namespace tenon
