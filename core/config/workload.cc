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
#include "core/config/workload_draw.h"

namespace tenon {
namespace {

// Parsed TOML takes far more memory than its text.
constexpr size_t kLargestWorkloadBytes = size_t{16} << 20;

constexpr size_t kMaxRequests = 1'000'000;
constexpr int64_t kMaxTokens = 1 << 24;

constexpr std::array<std::string_view, 5> kFileKeys = {"format", "title", "ignore_eos", "draw_seed",
                                                       "request"};
constexpr std::array<std::string_view, 16> kRequestKeys = {
    "prompt", "prompt_tokens", "prefix",    "prefix_tokens", "max_tokens", "samples",
    "count",  "ignore_eos",    "arrival",   "every",         "rate",       "priority",
    "tenant", "seed",          "vary_seed", "temperature"};
constexpr std::array<std::string_view, 4> kLengthKeys = {"mean", "spread", "min", "max"};

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
    out_.max_tokens = length("max_tokens");
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
    out_.prompt_tokens = length("prompt_tokens");
    out_.request.prefix.tokens = whole("prefix_tokens", 0, 0, kMaxTokens);
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
    out_.count = whole("count", 1, 1, kMaxRequests);
    reader_.duration(table_, "arrival", out_.request.arrival_ns);
    reader_.duration(table_, "every", out_.every_ns);
    out_.rate = reader_.real(table_, "rate", 1e-6, 1e6);
    if (table_.get("every") != nullptr && table_.get("rate") != nullptr) {
      reader_.error(table_.source(), "a request has 'every' and 'rate' – keep one");
    }
  }

  void read_sampling() {
    WorkloadRequest& request = out_.request;
    request.samples = whole("samples", 1, 1, 1024);
    reader_.flag(table_, "ignore_eos", request.ignore_eos);
    request.priority =
        static_cast<int32_t>(reader_.integer(table_, "priority", INT32_MIN, INT32_MAX).value_or(0));
    request.tenant = whole("tenant", 0, 0, UINT32_MAX);
    if (const auto seed = reader_.integer(table_, "seed", 0, INT64_MAX)) {
      request.seed = static_cast<uint64_t>(*seed);
    }
    reader_.flag(table_, "vary_seed", out_.vary_seed);
    request.temperature = reader_.real(table_, "temperature", 0.0, 100.0);
    read_answer(reader_, table_, kRequestKeys, request.answer);
  }

  uint32_t whole(std::string_view key, int64_t otherwise, int64_t min, int64_t max) {
    return static_cast<uint32_t>(reader_.integer(table_, key, min, max).value_or(otherwise));
  }

  // A whole number, or { mean, spread, min, max }.
  std::optional<LengthDistribution> length(std::string_view key) {
    const toml::node* node = table_.get(key);
    if (node == nullptr) return std::nullopt;
    LengthDistribution made;
    if (const toml::table* table = node->as_table()) {
      reader_.expect_known(*table, kLengthKeys);
      const auto mean = reader_.real(*table, "mean", 1, kMaxTokens);
      if (table->get("mean") == nullptr) {
        reader_.error(table->source(), in_quotes(key) + " has no 'mean'");
      }
      made.mean = mean.value_or(1);
      made.spread = reader_.real(*table, "spread", 0, 4).value_or(0);
      made.min = static_cast<uint32_t>(reader_.integer(*table, "min", 1, kMaxTokens).value_or(1));
      made.max = static_cast<uint32_t>(
          reader_.integer(*table, "max", made.min, kMaxTokens).value_or(kMaxTokens));
      return made;
    }
    const auto number = reader_.integer(table_, key, 1, kMaxTokens);
    if (!number) return std::nullopt;
    made.mean = static_cast<double>(*number);
    return made;
  }

  TableReader& reader_;
  const toml::table& table_;
  RequestTable out_;
};

// Writes out what one table stands for.
void expand(const RequestTable& table, uint64_t draw_seed, WorkloadDraw& draw,
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
    if (table.rate && i > 0) arrival_ns += draw.gap_ns(*table.rate);
    request.arrival_ns = arrival_ns + table.every_ns * i;
    if (table.vary_seed) request.seed = table.request.seed.value_or(0) + i;
    out.push_back(std::move(request));
  }
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
  (void)reader.integer(table, "format", 1, 1);
  reader.text(table, "title", workload.title);
  reader.flag(table, "ignore_eos", ignore_eos);
  const auto seed =
      static_cast<uint64_t>(reader.integer(table, "draw_seed", 0, INT64_MAX).value_or(0));
  WorkloadDraw draw(seed);
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
    if (workload.requests.size() + read.count > kMaxRequests) {
      reader.error(requests->source(), "there are more than " + std::to_string(kMaxRequests) +
                                           " requests – that many are read at most");
      break;
    }
    if (errors.empty()) expand(read, seed, draw, workload.requests);
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
  TENON_ASSIGN_OR_RETURN(const std::string text, read_text_file(path, kLargestWorkloadBytes));
  return parse_workload(text, path);
}

}  // namespace tenon
