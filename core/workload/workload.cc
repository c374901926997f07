#include "core/workload/workload.h"

#include <algorithm>
#include <array>
#include <functional>
#include <variant>

#include "core/base/files/mapped_file.h"
#include "core/base/origin.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/config/answer_reader.h"
#include "core/config/table_reader.h"
#include "core/config/toml_parse.h"
#include "core/workload/published_trace.h"
#include "core/workload/request_list.h"
#include "core/workload/request_table.h"

namespace tenon {
namespace {

constexpr int64_t kMaxRequests = 1'000'000;
constexpr double kLatestSeconds = 1e8;  // three years; whole nanoseconds then cannot overflow
constexpr std::array<std::string_view, 6> kFileKeys = {"format",    "title",       "ignore_eos",
                                                       "draw_seed", "drawn_words", "request"};
// In addition to the names of parameters().
constexpr std::array<std::string_view, 21> kRequestKeys = {"prompt",
                                                           "prompt_tokens",
                                                           "prefix",
                                                           "prefix_tokens",
                                                           "blocks",
                                                           "block_tokens",
                                                           "last_block_tokens",
                                                           "max_tokens",
                                                           "count",
                                                           "turns",
                                                           "turn_tokens",
                                                           "think",
                                                           "ignore_eos",
                                                           "arrival",
                                                           "every",
                                                           "rate",
                                                           "burstiness",
                                                           "priority",
                                                           "tenant",
                                                           "deadline",
                                                           "vary_seed"};
constexpr std::array<std::string_view, 4> kLengthKeys = {"mean", "spread", "min", "max"};

constexpr NumberSpec kNumbers[] = {
    whole_number("prompt_tokens", 1, kMostParameterTokens),
    whole_number("prefix_tokens", 0, kMostParameterTokens),
    whole_number("block_tokens", 1, kMostParameterTokens),
    whole_number("last_block_tokens", 1, kMostParameterTokens),
    whole_number("turn_tokens", 1, kMostParameterTokens),
    whole_number("count", 1, kMaxRequests),
    whole_number("turns", 1, 1000),
    real_number("rate", 1e-6, 1e6),
    real_number("burstiness", 0.01, 1000),
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
    out_.prefix_tokens = whole("prefix_tokens", 0);
    if (!out_.prefix.empty() && table_.get("prefix_tokens") == nullptr) {
      reader_.error(table_.get("prefix")->source(),
                    "'prefix' names tokens that requests share – say how many: 'prefix_tokens'");
    }
    read_blocks();
    const bool text = table_.get("prompt") != nullptr;
    const bool blocks = table_.get("blocks") != nullptr;
    const bool drawn = blocks || table_.get("prompt_tokens") != nullptr;
    if (!text && !drawn) {
      reader_.error(table_.source(), "a request has no 'prompt', nor 'prompt_tokens' to be drawn");
    } else if (text && drawn) {
      reader_.error(table_.source(), "a request has a 'prompt' and '" +
                                         std::string(blocks ? "blocks" : "prompt_tokens") +
                                         "' – keep one");
    } else if (text && out_.prefix_tokens > 0) {
      reader_.error(table_.source(),
                    "'prefix_tokens' belongs to drawn prompts – give the request "
                    "'prompt_tokens' in place of 'prompt', or write the prefix "
                    "into 'prompt'");
    }
    read_turns(text);
  }

  void read_blocks() {
    out_.block_tokens = whole("block_tokens", 0);
    out_.last_block_tokens = whole("last_block_tokens", 0);
    const toml::node* node = table_.get("blocks");
    if (node == nullptr) {
      if (out_.block_tokens + out_.last_block_tokens > 0) {
        reader_.error(table_.source(),
                      "'block_tokens' says how long blocks are – name the 'blocks'");
      }
      return;
    }
    const toml::array* list = node->as_array();
    for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
      const auto id = list->get(i)->value_exact<int64_t>();
      if (id && *id >= 0) out_.blocks.push_back(*id);
    }
    if (list == nullptr || list->empty() || out_.blocks.size() != list->size()) {
      reader_.error(node->source(), "'blocks' must be a list of whole numbers such as [0, 17, 18]");
    }
    if (out_.block_tokens == 0 || out_.last_block_tokens > out_.block_tokens) {
      reader_.error(node->source(),
                    "'blocks' needs 'block_tokens', and no longer 'last_block_tokens'");
    }
  }

  void read_turns(bool text) {
    out_.turns = whole("turns", 1);
    out_.turn_tokens = length(number("turn_tokens"));
    reader_.duration(table_, "think", out_.think_ns);
    if (out_.turns > 1 && text) {
      reader_.error(table_.source(),
                    "'turns' belongs to drawn prompts – give the request 'prompt_tokens' in place "
                    "of 'prompt', or write a request for each turn");
    } else if (out_.turns == 1 && (out_.turn_tokens || out_.think_ns > 0)) {
      reader_.error(table_.source(),
                    "'turn_tokens' and 'think' are of further turns – say how many "
                    "'turns' there are");
    }
  }

  void read_arrivals() {
    out_.count = whole("count", 1);
    reader_.duration(table_, "arrival", out_.request.arrival_ns);
    reader_.duration(table_, "every", out_.every_ns);
    out_.rate = reader_.real(table_, number("rate"));
    out_.burstiness = reader_.real(table_, number("burstiness")).value_or(1);
    if (table_.get("burstiness") != nullptr && !out_.rate) {
      reader_.error(table_.source(), "'burstiness' is of random arrivals – say their 'rate'");
    }
    if (table_.get("every") != nullptr && table_.get("rate") != nullptr) {
      reader_.error(table_.source(), "a request has 'every' and 'rate' – keep one");
    }
    const double count = out_.count;
    const double seconds = static_cast<double>(out_.request.arrival_ns) * 1e-9 +
                           static_cast<double>(out_.every_ns) * 1e-9 * count +
                           static_cast<double>(out_.think_ns) * 1e-9 * out_.turns +
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
    reader_.duration(table_, "deadline", request.deadline_ns);
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
    if (table.get("mean") != nullptr && (made.mean < made.min || made.mean > made.max)) {
      reader_.error(table.source(),
                    "of " + in_quotes(key) + " the 'mean' is " + format_real(made.mean) +
                        ", and none is below " + std::to_string(made.min) + " or above " +
                        std::to_string(made.max) + " – the mean must lie between 'min' and 'max'");
    }
    return made;
  }

  TableReader& reader_;
  const toml::table& table_;
  RequestTable out_;
};

// The requests from `first` on; false where all so far take too much memory.
bool add_made(const RequestList& list, size_t first, uint64_t& bytes,
              std::vector<WorkloadRequest>& out) {
  for (size_t i = first; i < list.size(); ++i) {
    WorkloadRequest request = list.at(i);
    bytes += bytes_of(request);
    if (bytes > kMostWorkloadBytes) return false;
    out.push_back(std::move(request));
  }
  return true;
}

// `made` gets the requests themselves as well; null: they may be many.
Result<RequestList> read_table(const toml::table& table, const std::string& name, Workload* made) {
  std::vector<std::string> errors;
  TableReader reader(name, "a workload", errors);
  reader.expect_known(table, kFileKeys);
  std::string title;
  bool ignore_eos = true, drawn_words = false;
  if (table.get("format") == nullptr) {
    reader.error(table.source(), "'format' is missing – write format = 1");
  }
  (void)reader.integer(table, whole_number("format", 1, 1));
  reader.text(table, "title", title);
  reader.flag(table, "ignore_eos", ignore_eos);
  reader.flag(table, "drawn_words", drawn_words);
  const auto seed = static_cast<uint64_t>(reader.integer(table, number("draw_seed")).value_or(0));
  RequestExpansion expansion(seed);
  RequestList list(seed, drawn_words);
  uint64_t bytes = 0;
  const toml::node* given = table.get("request");
  const toml::array* requests = given == nullptr ? nullptr : given->as_array();
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
    if (list.size() + read.requests() > size_t{kMaxRequests}) {
      reader.error(requests->source(), "there are more than " + std::to_string(kMaxRequests) +
                                           " requests – that many are read at most");
      break;
    }
    if (!errors.empty()) continue;
    const size_t first = list.size();
    expansion.expand(read, list);
    if (made == nullptr || add_made(list, first, bytes, made->requests)) continue;
    reader.error(request->source(),
                 "the requests take more than " + approximate_bytes(kMostWorkloadBytes) +
                     " together – that much is read at most – make them fewer or shorter");
    break;
  }
  if (!errors.empty()) return invalid_argument(join(errors, "\n"));
  if (made != nullptr) made->path = name, made->title = title;
  return list;
}

}  // namespace

std::span<const NumberSpec> workload_numbers() {
  return kNumbers;
}

Result<Workload> parse_workload(std::string_view text, const std::string& name) {
  TENON_ASSIGN_OR_RETURN(const toml::table table, parse_toml(text, name));
  Workload out;
  TENON_RETURN_IF_ERROR(read_table(table, name, &out).take_status());
  return out;
}

Result<RequestList> parse_request_list(std::string_view text, const std::string& name) {
  TENON_ASSIGN_OR_RETURN(const toml::table table, parse_toml(text, name));
  return read_table(table, name, nullptr);
}

Result<RequestList> read_request_list(const std::string& path) {
  if (is_trace(path)) {
    TENON_ASSIGN_OR_RETURN(const CutTrace trace, cut_trace(path, {}));
    return trace.list();
  }
  TENON_ASSIGN_OR_RETURN(const std::string text, read_text_file(path, kMostWorkloadText));
  return parse_request_list(text, path);
}

Result<Workload> read_trace_workload(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const TraceWorkload made, read_trace(path, {}));
  if (made.toml.size() > kMostWorkloadText) {
    return invalid_argument(path_in_quotes(path) + " has " + std::to_string(made.requests) +
                            " requests, which are too many – take a part of them: `tenon "
                            "workload trace FILE --limit N`");
  }
  return parse_workload(made.toml, path);
}

Result<Workload> read_workload(const std::string& path) {
  if (is_trace(path)) return read_trace_workload(path);
  TENON_ASSIGN_OR_RETURN(const std::string text, read_text_file(path, kMostWorkloadText));
  return parse_workload(text, path);
}

}  // namespace tenon
