#include "core/config/workload.h"

#include <algorithm>
#include <array>
#include <functional>
#include <variant>

#include "core/base/mapped_file.h"
#include "core/base/origin.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/config/answer_reader.h"
#include "core/config/table_reader.h"
#include "core/config/toml_parse.h"
#include "core/config/workload_draw.h"

namespace tenon {
namespace {

constexpr int64_t kMaxRequests = 1'000'000;
// Parsed TOML takes far more memory than its text.
constexpr size_t kLargestWorkloadBytes = size_t{16} << 20;
constexpr uint64_t kMostBytes = 1 << 30;
constexpr double kLatestSeconds = 1e8;  // three years; whole nanoseconds then cannot overflow
constexpr std::array<std::string_view, 5> kFileKeys = {"format", "title", "ignore_eos", "draw_seed",
                                                       "request"};
// Beside the names of parameters().
constexpr std::array<std::string_view, 13> kRequestKeys = {
    "prompt",  "prompt_tokens", "prefix", "prefix_tokens", "max_tokens", "count",    "ignore_eos",
    "arrival", "every",         "rate",   "priority",      "tenant",     "vary_seed"};
constexpr std::array<std::string_view, 4> kLengthKeys = {"mean", "spread", "min", "max"};

constexpr NumberSpec kNumbers[] = {
    whole_number("prompt_tokens", 1, kMostParameterTokens),
    whole_number("prefix_tokens", 0, kMostParameterTokens),
    whole_number("count", 1, kMaxRequests),
    real_number("rate", 1e-6, 1e6),
    whole_number("priority", INT32_MIN, INT32_MAX),
    whole_number("tenant", 0, UINT32_MAX),
    whole_number("draw_seed", 0, kMostSeed),
    real_number("mean", 1, kMostParameterTokens),
    real_number("spread", 0, 4),
    whole_number("min", 1, kMostParameterTokens),
    whole_number("max", 1, kMostParameterTokens),
};
const NumberSpec& number(std::string_view name) {
  return *std::find_if(std::begin(kNumbers), std::end(kNumbers),
                       [&](const NumberSpec& known) { return known.name == name; });
}

// FNV-1a: streams of drawn tokens are named by text.
uint64_t stream_of(std::string_view name, uint64_t seed) {
  uint64_t hash = 14695981039346656037ull ^ seed;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211ull;
  return hash;
}

// One [[request]] table, which may stand for several requests.
struct RequestTable {
  WorkloadRequest request;
  std::optional<LengthDistribution> prompt_tokens, max_tokens;
  std::string prefix;
  uint32_t count = 1;
  int64_t every_ns = 0;
  std::optional<double> rate;
  bool vary_seed = false;
};

class RequestReader {
 public:
  RequestReader(TableReader& reader, const toml::table& table) : reader_(reader), table_(table) {}

  RequestTable read(bool ignore_eos) {
    out_.request.ignore_eos = ignore_eos;
    std::vector<std::string_view> known(kRequestKeys.begin(), kRequestKeys.end());
    add_answer_keys(known);
    reader_.expect_known(table_, known);
    read_prompt();
    out_.max_tokens = length(parameter("max_tokens").number);
    if (table_.get("max_tokens") == nullptr) {
      reader_.error(table_.source(), "a request has no 'max_tokens'");
    }
    read_arrivals();
    read_sampling();
    return std::move(out_);
  }

 private:
  void read_prompt() {
    reader_.text(table_, "prompt", out_.request.prompt);
    reader_.text(table_, "prefix", out_.prefix);
    out_.prompt_tokens = length(number("prompt_tokens"));
    out_.request.prefix.tokens = whole("prefix_tokens", 0);
    const bool text = table_.get("prompt") != nullptr;
    const bool drawn = table_.get("prompt_tokens") != nullptr;
    if (!text && !drawn) {
      reader_.error(table_.source(), "a request has no 'prompt', nor 'prompt_tokens' to be drawn");
    } else if (text && drawn) {
      reader_.error(table_.source(), "a request has a 'prompt' and 'prompt_tokens' – keep one");
    } else if (text && out_.request.prefix.tokens > 0) {
      reader_.error(table_.source(),
                    "'prefix_tokens' belongs to drawn prompts – give the request "
                    "'prompt_tokens' in place of 'prompt', or write the prefix "
                    "into 'prompt'");
    }
  }

  void read_arrivals() {
    out_.count = whole("count", 1);
    reader_.duration(table_, "arrival", out_.request.arrival_ns);
    reader_.duration(table_, "every", out_.every_ns);
    out_.rate = reader_.real(table_, number("rate"));
    if (table_.get("every") != nullptr && table_.get("rate") != nullptr) {
      reader_.error(table_.source(), "a request has 'every' and 'rate' – keep one");
    }
    const double count = out_.count;
    const double seconds = static_cast<double>(out_.request.arrival_ns) * 1e-9 +
                           static_cast<double>(out_.every_ns) * 1e-9 * count +
                           (out_.rate ? count / *out_.rate : 0.0);
    if (seconds > kLatestSeconds) {
      reader_.error(table_.source(), "the last request arrives after " + format_real(seconds) +
                                         " seconds – that must be " + format_real(kLatestSeconds) +
                                         " at most – let them arrive sooner");
    }
  }

  void read_sampling() {
    WorkloadRequest& request = out_.request;
    reader_.flag(table_, "ignore_eos", request.ignore_eos);
    request.priority =
        static_cast<int32_t>(reader_.integer(table_, number("priority")).value_or(0));
    request.tenant = whole("tenant", 0);
    reader_.flag(table_, "vary_seed", out_.vary_seed);
    read_answer(reader_, table_, kRequestKeys, request.answer);
    const int64_t first = static_cast<int64_t>(request.answer.seed.value_or(0));
    if (out_.vary_seed && first > kMostSeed - out_.count) {
      reader_.error(table_.source(), "seed is " + std::to_string(first) + " – with 'vary_seed', " +
                                         std::to_string(out_.count) + " requests count it beyond " +
                                         std::to_string(kMostSeed) + " – start lower");
    }
  }

  uint32_t whole(std::string_view key, int64_t otherwise) {
    return static_cast<uint32_t>(reader_.integer(table_, number(key)).value_or(otherwise));
  }

  // A whole number, or { mean, spread, min, max }.
  std::optional<LengthDistribution> length(const NumberSpec& spec) {
    const toml::node* node = table_.get(spec.name);
    if (node == nullptr) return std::nullopt;
    LengthDistribution made;
    if (const toml::table* table = node->as_table()) return distribution(spec.name, *table);
    const auto number = reader_.integer(table_, spec);
    if (!number) return std::nullopt;
    made.mean = static_cast<double>(*number);
    return made;
  }

  LengthDistribution distribution(std::string_view key, const toml::table& table) {
    LengthDistribution made;
    reader_.expect_known(table, kLengthKeys);
    if (table.get("mean") == nullptr) {
      reader_.error(table.source(), in_quotes(key) + " has no 'mean'");
    }
    made.mean = reader_.real(table, number("mean")).value_or(1);
    made.spread = reader_.real(table, number("spread")).value_or(0);
    made.min = static_cast<uint32_t>(reader_.integer(table, number("min")).value_or(1));
    NumberSpec max = number("max");
    max.least = made.min;
    made.max = static_cast<uint32_t>(reader_.integer(table, max).value_or(kMostParameterTokens));
    return made;
  }

  TableReader& reader_;
  const toml::table& table_;
  RequestTable out_;
};

// What one more request takes, beside its own size.
uint64_t bytes_of(const WorkloadRequest& request) {
  const AnswerSettings& answer = request.answer;
  uint64_t bytes = request.prompt.size() +
                   sizeof(TokenId) * (uint64_t{request.prefix.tokens} + request.own.tokens +
                                      answer.stop_tokens.size() + answer.allowed_tokens.size()) +
                   sizeof(LogitBias) * answer.logit_bias.size();
  for (const auto* texts : {&answer.stop, &answer.bad_words, &answer.dry_breakers}) {
    for (const std::string& text : *texts) bytes += sizeof(text) + text.size();
  }
  for (const VendorSetting& setting : answer.params) {
    bytes += sizeof(setting) + setting.key.size() + setting.text.size();
  }
  return bytes;
}

// Writes out what one table stands for; `bytes` counts what all so far take. False
// where that becomes too much.
bool expand(const RequestTable& table, uint64_t draw_seed, WorkloadDraw& draw, uint64_t& bytes,
            std::vector<WorkloadRequest>& out) {
  int64_t arrival_ns = table.request.arrival_ns;
  for (uint32_t i = 0; i < table.count; ++i) {
    WorkloadRequest request = table.request;
    request.max_tokens = table.max_tokens ? draw.length(*table.max_tokens) : 1;
    if (table.prompt_tokens) {
      request.own = {stream_of("request " + std::to_string(out.size()), draw_seed),
                     draw.length(*table.prompt_tokens)};
      request.prefix.stream = stream_of("prefix " + table.prefix, draw_seed);
    }
    bytes += bytes_of(request);
    if (bytes > kMostBytes) return false;
    if (table.rate && i > 0) arrival_ns += draw.gap_ns(*table.rate);
    request.arrival_ns = arrival_ns + table.every_ns * i;
    if (table.vary_seed) request.answer.seed = table.request.answer.seed.value_or(0) + i;
    out.push_back(std::move(request));
  }
  return true;
}

Result<Workload> read_table(const toml::table& table, const std::string& name) {
  std::vector<std::string> errors;
  TableReader reader(name, "a workload", errors);
  reader.expect_known(table, kFileKeys);
  Workload workload;
  workload.path = name;
  bool ignore_eos = true;
  if (table.get("format") == nullptr) {
    reader.error(table.source(), "'format' is missing – write format = 1");
  }
  (void)reader.integer(table, whole_number("format", 1, 1));
  reader.text(table, "title", workload.title);
  reader.flag(table, "ignore_eos", ignore_eos);
  const auto seed = static_cast<uint64_t>(reader.integer(table, number("draw_seed")).value_or(0));
  WorkloadDraw draw(seed);
  uint64_t bytes = 0;
  const toml::node* list = table.get("request");
  const toml::array* requests = list == nullptr ? nullptr : list->as_array();
  if (requests == nullptr || requests->empty()) {
    reader.error(table.source(), "there are no requests – write a [[request]] for each");
    return invalid_argument(join(errors, "\n"));
  }
  for (const toml::node& node : *requests) {
    const toml::table* request = node.as_table();
    if (request == nullptr) {
      reader.error(node.source(), "a request must be a [[request]] table");
      continue;
    }
    const RequestTable read = RequestReader(reader, *request).read(ignore_eos);
    if (workload.requests.size() + read.count > size_t{kMaxRequests}) {
      reader.error(requests->source(), "there are more than " + std::to_string(kMaxRequests) +
                                           " requests – that many are read at most");
      break;
    }
    if (!errors.empty() || expand(read, seed, draw, bytes, workload.requests)) continue;
    reader.error(request->source(),
                 "the requests take more than " + approximate_bytes(kMostBytes) +
                     " together – that much is read at most – make them fewer or shorter");
    break;
  }
  if (!errors.empty()) return invalid_argument(join(errors, "\n"));
  return workload;
}

}  // namespace

std::span<const NumberSpec> workload_numbers() {
  return kNumbers;
}

Result<Workload> parse_workload(std::string_view text, const std::string& name) {
  TENON_ASSIGN_OR_RETURN(const toml::table table, parse_toml(text, name));
  return read_table(table, name);
}

Result<Workload> read_workload(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const std::string text, read_text_file(path, kLargestWorkloadBytes));
  return parse_workload(text, path);
}

}  // namespace tenon
