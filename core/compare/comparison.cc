#include "core/compare/comparison.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "core/base/files/mapped_file.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/config/table_reader.h"
#include "core/config/toml_parse.h"
#include "core/hub/cache.h"
#include "core/report/statistics/written_bounds.h"
#include "core/request/parameters.h"
#include "core/routing/router.h"

namespace tenon::compare {
namespace {

constexpr size_t kLargestComparisonBytes = size_t{1} << 20;
constexpr uint32_t kUsualProbes = 8;  // of a search of a rate
constexpr std::array<std::string_view, 40> kKeys = {
    "format",     "title",       "claim",       "loses",      "base",     "base_name",
    "model",      "set",         "arm",         "several",    "workload", "same_answers",
    "max_tokens", "in_flight",   "rate",        "cache",      "metric",   "margin",
    "confidence", "pairs",       "budget",      "seed",       "unlike",   "noise_pairs",
    "slo",        "expect",      "trace",       "burstiness", "scale",    "goodput",
    "text",       "text_tokens", "text_window", "url",        "answers",  "authorities",
    "restart",    "machine",     "cluster",     "count_waits"};
constexpr std::array<std::string_view, 4> kTraceKeys = {"limit", "skip", "length_scale", "context"};
constexpr std::array<std::string_view, 6> kArmKeys = {"name",    "set",     "model",
                                                      "weights", "program", "url"};
constexpr std::array<std::string_view, 5> kClusterKeys = {"machines", "routing", "prefill",
                                                          "decode_machine", "failures"};
constexpr std::array<std::string_view, 3> kFailureKeys = {"machine", "at", "for"};
constexpr std::array<std::string_view, 2> kSloKeys = {"ttft", "gap"};
constexpr std::array<std::string_view, 3> kBandKeys = {"metric", "low", "high"};

class ComparisonReader {
 public:
  ComparisonReader(const std::string& name, std::string folder, std::vector<std::string>& errors)
      : reader_(name, "a comparison", errors), folder_(std::move(folder)) {}

  Comparison read(const toml::table& table) {
    reader_.expect_known(table, kKeys);
    if (table.get("format") == nullptr) {
      reader_.error(table.source(), "'format' is missing – write format = 1");
    }
    (void)reader_.integer(table, whole_number("format", 1, 1));
    read_sides(table);
    read_work(table);
    read_statistics(table);
    for (const toml::table* band : tables(table, "expect")) read_band(*band);
    return std::move(out_);
  }

 private:
  void read_sides(const toml::table& table) {
    refuse_empty(table);
    reader_.text(table, "title", out_.title);
    reader_.text(table, "claim", out_.claim);
    reader_.text(table, "loses", out_.loses);
    path(table, "base", out_.base);
    reader_.text(table, "base_name", out_.base_name);
    reader_.text(table, "url", out_.url);
    path(table, "authorities", out_.authorities);
    model(table, out_.url, out_.model);
    texts(table, "set", out_.set);
    std::string answers;
    reader_.text(table, "answers", answers);
    if (answers == "may differ") out_.same_answers = false;
    if (!answers.empty() && answers != "may differ" && answers != "equal") {
      reader_.error(table.get("answers")->source(),
                    "answers is " + in_quotes(answers) + "; expected \"equal\" or \"may differ\"");
    }
    reader_.flag(table, "several", out_.several);
    reader_.flag(table, "count_waits", out_.count_waits);
    reader_.flag(table, "same_answers", out_.same_answers);
    for (const toml::table* arm : tables(table, "arm")) {
      reader_.expect_known(*arm, kArmKeys);
      refuse_empty(*arm);
      ComparisonArm& added = out_.arms.emplace_back();
      reader_.text(*arm, "name", added.name);
      if (added.name.empty()) reader_.error(arm->source(), "an arm has no 'name'");
      texts(*arm, "set", added.set);
      reader_.text(*arm, "url", added.url);
      model(*arm, added.url, added.model);
      reader_.text(*arm, "weights", added.weights);
      path(*arm, "program", added.program);
    }
  }

  void read_work(const toml::table& table) {
    reader_.text(table, "machine", out_.machine);
    if (out_.machine.find('/') != std::string::npos) path(table, "machine", out_.machine);
    path(table, "workload", out_.workload);
    path(table, "text", out_.text);
    whole(table, whole_number("text_tokens", 2, kMostParameterTokens), out_.text_tokens);
    whole(table, whole_number("text_window", 2, kMostParameterTokens), out_.text_window);
    whole(table, whole_number("max_tokens", 1, 1 << 20), out_.max_tokens);
    whole(table, whole_number("in_flight", 1, 1 << 20), out_.in_flight);
    out_.rate = reader_.real(table, real_number("rate", 1e-3, 1e6)).value_or(0);
    out_.burstiness = reader_.real(table, real_number("burstiness", 0.01, 1000)).value_or(1);
    out_.scale = reader_.real(table, real_number("scale", 1e-6, 1e6)).value_or(1);
    if (const toml::node* trace = table.get("trace")) read_trace(*trace);
    if (const toml::node* cluster = table.get("cluster")) read_cluster(*cluster);
    std::string cache(cache_state_name(out_.cache));
    reader_.text(table, "cache", cache);
    if (const auto state = parse_cache_state(cache)) {
      out_.cache = *state;
    } else {
      reader_.error(table.get("cache")->source(),
                    in_quotes(cache) + " is no state of the cache; expected cold, warm or steady");
    }
    std::string goodput;
    reader_.text(table, "goodput", goodput);
    if (const Status status = goodput.empty() ? Status() : set_goodput(goodput, out_);
        !status.ok()) {
      reader_.error(table.get("goodput")->source(), message_of(status));
    }
    const toml::node* slo = table.get("slo");
    if (slo == nullptr) return;
    if (const toml::table* bounds = slo->as_table()) {
      reader_.expect_known(*bounds, kSloKeys);
      reader_.duration(*bounds, "ttft", out_.slo_ttft_ns);
      reader_.duration(*bounds, "gap", out_.slo_gap_ns);
    } else {
      reader_.error(slo->source(),
                    "'slo' must be a table such as { ttft = \"500ms\", gap = \"50ms\" }");
    }
  }

  // As settings of all arms, so that arms may have others.
  void read_cluster(const toml::node& node) {
    const toml::table* table = node.as_table();
    if (table == nullptr) {
      reader_.error(node.source(), "'cluster' must be a table such as { machines = 4 }");
      return;
    }
    reader_.expect_known(*table, kClusterKeys);
    if (const auto machines = reader_.integer(*table, whole_number("machines", 1, 1024))) {
      out_.set.push_back("cluster.machines=" + std::to_string(*machines));
    }
    std::string routing;
    reader_.text(*table, "routing", routing);
    if (!routing.empty()) out_.set.push_back("cluster.routing=" + routing);
    if (const auto prefill = reader_.integer(*table, whole_number("prefill", 0, 1023))) {
      out_.set.push_back("cluster.prefill=" + std::to_string(*prefill));
    }
    std::string decode;
    reader_.text(*table, "decode_machine", decode);
    if (!decode.empty()) out_.set.push_back("cluster.decode_machine=" + decode);
    for (const toml::table* failure : tables(*table, "failures")) read_failure(*failure);
  }

  void read_failure(const toml::table& table) {
    reader_.expect_known(table, kFailureKeys);
    MachineFailure failure;
    if (const auto machine = reader_.integer(table, whole_number("machine", 1, 1024))) {
      failure.machine = static_cast<uint32_t>(*machine);
    }
    reader_.duration(table, "at", failure.at_ns);
    reader_.duration(table, "for", failure.for_ns);
    if (failure.machine == 0 || failure.for_ns <= 0) {
      reader_.error(table.source(),
                    "a failure needs a 'machine', an 'at', and a 'for' that is longer than 0");
    }
    out_.set.push_back("cluster.failure=" + failure_text(failure));
  }

  void read_trace(const toml::node& node) {
    const toml::table* table = node.as_table();
    if (table == nullptr) {
      reader_.error(node.source(), "'trace' must be a table such as { limit = 200 }");
      return;
    }
    reader_.expect_known(*table, kTraceKeys);
    whole(*table, whole_number("limit", 1, 1'000'000), out_.trace.limit);
    whole(*table, whole_number("skip", 0, 1'000'000'000), out_.trace.skip);
    whole(*table, whole_number("context", 2, kMostParameterTokens), out_.trace.context_tokens);
    out_.trace.length_scale =
        reader_.real(*table, real_number("length_scale", 1e-6, 1e3)).value_or(1);
  }

  void read_statistics(const toml::table& table) {
    reader_.text(table, "metric", out_.metric);
    out_.margin = reader_.real(table, real_number("margin", 1e-4, 1)).value_or(out_.margin);
    out_.confidence =
        reader_.real(table, real_number("confidence", 0.5, 0.9999)).value_or(out_.confidence);
    whole(table, whole_number("pairs", 4, 100000), out_.pairs);
    whole(table, whole_number("noise_pairs", 0, 100000), out_.noise_pairs);
    if (const auto restart = reader_.integer(table, whole_number("restart", 0, 100000))) {
      out_.restart = static_cast<uint32_t>(*restart);
    }
    reader_.duration(table, "budget", out_.budget_ns);
    if (const auto seed = reader_.integer(table, whole_number("seed", 0, INT64_MAX))) {
      out_.seed = static_cast<uint64_t>(*seed);
    }
    out_.unlike = reader_.real(table, real_number("unlike", 0.001, 100)).value_or(out_.unlike);
  }

  void read_band(const toml::table& table) {
    reader_.expect_known(table, kBandKeys);
    ExpectedBand band;
    reader_.text(table, "metric", band.metric);
    band.low = reader_.real(table, real_number("low", 0, 1e6)).value_or(0);
    band.high = reader_.real(table, real_number("high", 0, 1e6)).value_or(0);
    if (band.metric.empty() || band.high <= band.low) {
      reader_.error(table.source(), "a band needs a 'metric', and a 'low' below its 'high'");
    }
    out_.expect.push_back(std::move(band));
  }

  // Of keys that name something: left empty they would mean what they mean when they are absent.
  void refuse_empty(const toml::table& table) {
    for (const char* key : {"base", "model", "url", "authorities", "machine", "workload", "text",
                            "weights", "program", "metric", "goodput"}) {
      const toml::node* node = table.get(key);
      if (node == nullptr || !node->is_string() || !node->as_string()->get().empty()) continue;
      reader_.error(node->source(), in_quotes(key) + " is empty; name one, or leave it out");
    }
  }

  template <typename T>
  void whole(const toml::table& table, const NumberSpec& spec, T& out) {
    if (const auto value = reader_.integer(table, spec)) out = static_cast<T>(*value);
  }

  // A path, a name in the cache, or what a server calls it.
  void model(const toml::table& table, const std::string& url, std::string& out) {
    reader_.text(table, "model", out);
    if (url.empty() && !hub::is_name_alone(out, folder_)) path(table, "model", out);
  }

  void path(const toml::table& table, std::string_view key, std::string& out) {
    std::string text;
    reader_.text(table, key, text);
    if (!text.empty()) out = (std::filesystem::path(folder_) / text).lexically_normal().string();
  }

  void texts(const toml::table& table, std::string_view key, std::vector<std::string>& out) {
    const toml::node* node = table.get(key);
    if (node == nullptr) return;
    const toml::array* list = node->as_array();
    const auto is_text = [](const toml::node& entry) { return entry.is_string(); };
    if (list == nullptr || !std::all_of(list->begin(), list->end(), is_text)) {
      reader_.error(node->source(),
                    in_quotes(key) + " must be a list such as [\"scheduler.plugin=chunked\"]");
      return;
    }
    for (const toml::node& entry : *list) out.push_back(setting(entry.as_string()->get()));
  }

  // Settings that name models are paths like any other here.
  std::string setting(const std::string& text) const {
    for (const std::string key : {"model.path=", "drafter.model=", "drafter.text="}) {
      if (!text.starts_with(key)) continue;
      const std::string path = text.substr(key.size());
      if (key != "drafter.text=" && hub::is_name_alone(path, folder_)) return text;
      return key + (std::filesystem::path(folder_) / path).lexically_normal().string();
    }
    return text;
  }

  std::vector<const toml::table*> tables(const toml::table& table, std::string_view key) {
    std::vector<const toml::table*> found;
    const toml::node* node = table.get(key);
    const toml::array* list = node == nullptr ? nullptr : node->as_array();
    if (node != nullptr && list == nullptr) {
      reader_.error(node->source(),
                    in_quotes(key) + " must be [[" + std::string(key) + "]] tables");
    }
    for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
      if (const toml::table* entry = list->get(i)->as_table()) {
        found.push_back(entry);
      } else {
        reader_.error(list->get(i)->source(), in_quotes(key) + " must be a table");
      }
    }
    return found;
  }

  TableReader reader_;
  std::string folder_;
  Comparison out_;
};

Status check_arm(const ComparisonArm& arm, const std::string& base_url, bool several) {
  if (!arm.url.empty() && (!arm.set.empty() || !arm.program.empty() || !arm.weights.empty())) {
    return invalid_argument("arm " + in_quotes(arm.name) +
                            " is a running server and has settings, weights or a program of its "
                            "own – a server runs as it was started – take them away");
  }
  if (!arm.weights.empty() && !base_url.empty()) {
    return invalid_argument("arm " + in_quotes(arm.name) + " wants the base's weights as " +
                            in_quotes(arm.weights) +
                            ", and the base is a running server, which shows nobody its weights – "
                            "name a model of that type (model)");
  }
  if (!arm.weights.empty() && !arm.model.empty()) {
    return invalid_argument("arm " + in_quotes(arm.name) +
                            " has a model of its own and weights of another type – which of them "
                            "made the difference nobody would know – keep one");
  }
  std::set<std::string> once;
  for (const std::string& setting : arm.set) {
    const std::string key = setting.substr(0, setting.find('='));
    if (once.insert(key).second) continue;
    return invalid_argument("arm " + in_quotes(arm.name) + " sets " + key +
                            " twice – which of both counts nobody would know – keep one");
  }
  const std::vector<std::string> keys = arm.keys();
  if (several || keys.size() <= 1) return {};
  return invalid_argument("arm " + in_quotes(arm.name) + " differs in " +
                          std::to_string(keys.size()) + " keys (" + join(keys) +
                          ") – with more than one nobody knows which of them made the difference – "
                          "take all but one away, or write several = true (--several)");
}

// An arm's one difference, as it is written: "scheduler.plugin=chunked". Empty: there are more.
std::string only_setting(const ComparisonArm& arm) {
  if (arm.keys().size() != 1 || arm.set.size() > 1) return "";
  if (!arm.set.empty()) return arm.set.front();
  for (const auto& [key, value] :
       {std::pair{"model=", &arm.model}, {"weights=", &arm.weights}, {"program=", &arm.program}}) {
    if (!value->empty()) return key + *value;
  }
  return "url=" + arm.url;
}

// Arms that nobody has named are called after their values; those of one value, after keys and it.
std::string name_of_difference(std::string_view setting, Comparison& comparison) {
  const std::string value(setting.substr(setting.find('=') + 1));
  bool is_alone = true;
  for (ComparisonArm& arm : comparison.arms) {
    const std::string other = arm.is_named ? "" : only_setting(arm);
    const bool is_alike = !other.empty() && other.substr(other.find('=') + 1) == value;
    if (is_alike || arm.name == value) is_alone = false;
    if (is_alike) arm.name = other;
  }
  return is_alone ? value : std::string(setting);
}

}  // namespace

std::vector<std::string> ComparisonArm::keys() const {
  std::set<std::string> keys;
  for (const std::string& setting : set) keys.insert(setting.substr(0, setting.find('=')));
  if (!url.empty()) return {"url"};
  if (!model.empty()) keys.insert("model.path");
  if (!weights.empty()) keys.insert("weights");
  if (!program.empty()) keys.insert("program");
  return {keys.begin(), keys.end()};
}

std::string_view cache_state_name(CacheState state) {
  return state == CacheState::cold ? "cold" : state == CacheState::warm ? "warm" : "steady";
}
std::optional<CacheState> parse_cache_state(std::string_view name) {
  for (const CacheState state : {CacheState::cold, CacheState::warm, CacheState::steady}) {
    if (cache_state_name(state) == name) return state;
  }
  return std::nullopt;
}

Result<Comparison> parse_comparison(std::string_view text, const std::string& name,
                                    const std::string& folder) {
  TENON_ASSIGN_OR_RETURN(const toml::table table, parse_toml(text, name));
  std::vector<std::string> errors;
  Comparison comparison = ComparisonReader(name, folder, errors).read(table);
  if (!errors.empty()) return invalid_argument(join(errors, "\n"));
  comparison.path = name;
  return comparison;
}

Result<Comparison> read_comparison(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const std::string text, read_text_file(path, kLargestComparisonBytes));
  return parse_comparison(text, path, std::filesystem::path(path).parent_path().string());
}

Status add_arm(std::string_view text, Comparison& comparison) {
  const size_t equals = text.find('='), colon = text.find(':');
  const bool named = colon < equals;  // npos is the largest number
  const std::string_view setting = named ? text.substr(colon + 1) : text;
  const std::string_view value = equals == text.npos ? "" : text.substr(equals + 1);
  const bool is_difference = setting.empty() || (setting.front() != '=' && !value.empty());
  if (!is_difference || (named ? colon == 0 : value.empty())) {
    return invalid_argument("--arm " + in_quotes(text) +
                            " is no difference – expected KEY=VALUE or NAME:KEY=VALUE, for example "
                            "chunked:scheduler.plugin=chunked – write it so");
  }
  const std::string name(named ? std::string(text.substr(0, colon))
                               : name_of_difference(setting, comparison));
  auto arm = std::find_if(comparison.arms.begin(), comparison.arms.end(),
                          [&](const ComparisonArm& each) { return named && each.name == name; });
  if (arm == comparison.arms.end()) {
    arm = comparison.arms.insert(arm, ComparisonArm{.name = name});
  }
  arm->is_named = named;
  if (setting.starts_with("model=")) {
    arm->model = value;
  } else if (setting.starts_with("weights=")) {
    arm->weights = value;
  } else if (setting.starts_with("program=")) {
    arm->program = value;
  } else if (setting.starts_with("url=")) {
    arm->url = value;
  } else if (!setting.empty()) {
    arm->set.emplace_back(setting);
  }
  return {};
}

Status set_goodput(std::string_view text, Comparison& comparison) {
  TENON_ASSIGN_OR_RETURN(const WrittenBounds bounds, parse_bounds(text, "goodput", true));
  // What is not said may be in a file's `slo`.
  if (bounds.ttft_ns > 0) comparison.slo_ttft_ns = bounds.ttft_ns;
  if (bounds.gap_ns > 0) comparison.slo_gap_ns = bounds.gap_ns;
  comparison.slo_share = bounds.share;
  comparison.probes = bounds.probes.value_or(kUsualProbes);
  comparison.metric = "goodput_rate";
  return {};
}

Status check_comparison(const Comparison& comparison) {
  if (comparison.arms.empty()) {
    return invalid_argument(
        "there is nothing to compare the base with – write an [[arm]], or --arm KEY=VALUE");
  }
  if (comparison.workload.empty()) {
    return invalid_argument("there is no work to compare on – name a workload (--workload FILE)");
  }
  if (comparison.budget_ns <= 0) {
    return invalid_argument("the budget is " + format_duration(comparison.budget_ns) +
                            ", in which nothing can be measured – give a time such as 10m");
  }
  const bool bounds = comparison.slo_ttft_ns > 0 || comparison.slo_gap_ns > 0;
  if (comparison.metric == "goodput" && !bounds) {
    return invalid_argument(
        "the metric 'goodput' counts requests that keep their bounds, and there are none – give "
        "the file slo = { ttft = \"500ms\", gap = \"50ms\" }");
  }
  if (comparison.in_flight > 0 && comparison.rate > 0) {
    return invalid_argument(
        "'in_flight' and 'rate' are both there – requests come in a closed loop or in an open one "
        "– "
        "keep one");
  }
  if (comparison.probes > 0 && (comparison.rate > 0 || comparison.in_flight > 0)) {
    return invalid_argument(
        "'goodput' searches the rate of arrivals, and 'rate' or 'in_flight' says it – keep one");
  }
  if ((comparison.probes > 0) != (comparison.metric == "goodput_rate")) {
    return invalid_argument(
        "the metric 'goodput_rate' and a search of the rate (goodput) go together, and the metric "
        "is " +
        in_quotes(comparison.metric) + " – leave 'metric' out");
  }
  if (comparison.burstiness != 1 && comparison.rate == 0 && comparison.probes == 0) {
    return invalid_argument(
        "'burstiness' is of random arrivals, and there is no 'rate' – say so many a second (rate)");
  }
  if (comparison.scale != 1 && (comparison.rate > 0 || comparison.in_flight > 0)) {
    return invalid_argument(
        "'scale' is of the workload's own arrivals, and 'rate' or 'in_flight' stand in place of "
        "them – keep one");
  }
  std::set<std::string> names = {comparison.base_name};
  for (const ComparisonArm& arm : comparison.arms) {
    if (!names.insert(arm.name).second) {
      return invalid_argument("two arms are called " + in_quotes(arm.name) +
                              " – reports need a name for each – give one another name");
    }
    TENON_RETURN_IF_ERROR(check_arm(arm, comparison.url, comparison.several));
  }
  return {};
}

}  // namespace tenon::compare
