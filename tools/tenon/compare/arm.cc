#include "tools/tenon/compare/arm.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "core/base/quote.h"
#include "core/config/toml_reader.h"
#include "tools/tenon/process/interrupt.h"
#include "tools/tenon/shell/places.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;
using Json = CompareJson;

Status ended_by_interrupt() {
  return failed("ended by " + std::string(interrupt_name()));
}

std::vector<std::string> command_of(const Comparison& comparison, const ComparisonArm& arm,
                                    const std::vector<std::string>& plugin_path) {
  std::vector<std::string> command = {arm.program, "compare-arm"};
  if (command[0].empty()) command[0] = program_folder() + "/tenon";
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) command.insert(command.end(), {flag, value});
  };
  if (!arm.url.empty()) {
    add("--url", arm.url);
    add("--served", arm.model);
    if (arm.url.starts_with("https://")) add("--authorities", comparison.authorities);
    return command;
  }
  add("--config", comparison.base);
  // Where the base is a server, its model is a name there.
  add("--model", arm.model.empty() && comparison.url.empty() ? comparison.model : arm.model);
  for (const std::string& folder : plugin_path) add("--plugin-path", folder);
  for (const auto* settings : {&comparison.set, &arm.set}) {
    for (const std::string& setting : *settings) add("--set", setting);
  }
  return command;
}

// Names, sizes and times of a model's files.
std::string state_of(const std::string& path) {
  std::error_code error;
  std::vector<std::string> files;
  const auto add = [&](const fs::path& file) {
    if (!fs::is_regular_file(file, error)) return;
    files.push_back(file.string() + " " + std::to_string(fs::file_size(file, error)) + " " +
                    std::to_string(fs::last_write_time(file, error).time_since_epoch().count()));
  };
  add(path);
  for (const auto& entry : fs::directory_iterator(path, error)) add(entry.path());
  std::sort(files.begin(), files.end());
  std::string all;
  for (const std::string& file : files) all += file + "\n";
  return all;
}

std::map<std::string, std::string> values_of(const std::string& toml) {
  std::map<std::string, std::string> values;
  const Result<FlatToml> flat = read_toml(toml, "resolved");
  if (!flat.ok()) return values;
  for (const Setting& setting : flat->values) values[setting.key] = to_toml(setting.value);
  return values;
}

// Prompts that are drawn for servers are ids that any vocabulary has.
constexpr uint32_t kServedVocabulary = 1000;

uint32_t drawn_vocabulary(const Comparison& comparison) {
  const bool any = !comparison.url.empty() ||
                   std::any_of(comparison.arms.begin(), comparison.arms.end(),
                               [](const ComparisonArm& arm) { return !arm.url.empty(); });
  return any ? kServedVocabulary : 0;
}

}  // namespace

ComparisonArm base_arm(const Comparison& comparison) {
  ComparisonArm base;
  base.name = comparison.base_name;
  base.url = comparison.url;
  if (!base.url.empty()) base.model = comparison.model;
  return base;
}

std::vector<std::string> differences_between(const std::string& base_toml,
                                             const std::string& arm_toml) {
  const auto base = values_of(base_toml), arm = values_of(arm_toml);
  std::vector<std::string> out;
  for (const auto& [key, value] : base) {
    const auto found = arm.find(key);
    if (found != arm.end() && found->second == value) continue;
    out.push_back(key + ": " + value + " → " + (found == arm.end() ? "(none)" : found->second));
  }
  for (const auto& [key, value] : arm) {
    if (!base.contains(key)) out.push_back(key + ": (none) → " + value);
  }
  return out;
}

Result<std::unique_ptr<RunningArm>> RunningArm::start(const Comparison& comparison,
                                                      const ComparisonArm& arm,
                                                      const std::vector<std::string>& plugin_path,
                                                      std::function<bool()> go_on) {
  Result<ChildProcess> process = ChildProcess::start(command_of(comparison, arm, plugin_path));
  if (!process.ok()) return with_context("arm " + in_quotes(arm.name), process.status());
  std::unique_ptr<RunningArm> running(new RunningArm(*std::move(process), std::move(go_on)));
  running->described_.name = arm.name;
  TENON_ASSIGN_OR_RETURN(const auto ready, running->answer());
  if (!ready) return ended_by_interrupt();
  TENON_ASSIGN_OR_RETURN(const auto described, running->ask({{"do", "describe"}}));
  if (!described) return ended_by_interrupt();
  TENON_ASSIGN_OR_RETURN(running->described_, arm_of(*described));
  running->described_.name = arm.name;
  const auto values = values_of(running->described_.resolved);
  if (const auto path = values.find("model.path"); path != values.end()) {
    // As TOML writes it: between quotes.
    running->model_path_ = path->second.substr(1, path->second.size() - 2);
  }
  running->model_state_ = state_of(running->model_path_);
  return running;
}

Result<std::vector<int64_t>> RunningArm::load(const std::string& workload,
                                              const Comparison& comparison,
                                              const std::vector<int64_t>* arrivals_ns) {
  Json order = {{"do", "load"},
                {"workload", workload},
                {"max_tokens", comparison.max_tokens},
                {"in_flight", comparison.in_flight},
                {"vocabulary", drawn_vocabulary(comparison)}};
  if (arrivals_ns != nullptr) order["arrivals_ns"] = *arrivals_ns;
  TENON_ASSIGN_OR_RETURN(const auto loaded, ask(order));
  if (!loaded) return ended_by_interrupt();
  std::vector<int64_t> arrivals;
  TENON_RETURN_IF_ERROR(get_member(*loaded, "arrivals_ns", arrivals));
  return arrivals;
}

Result<std::optional<MeasuredPiece>> RunningArm::run(const Order& order) {
  Json json = {{"do", "run"},
               {"digests", order.digests},
               {"salt", order.salt},
               {"warm", order.warm},
               {"keep", order.keep}};
  if (!order.record.empty()) json["record"] = order.record;
  if (order.arrivals_ns != nullptr) json["arrivals_ns"] = *order.arrivals_ns;
  TENON_ASSIGN_OR_RETURN(const auto found, ask(json));
  if (!found) return std::optional<MeasuredPiece>();
  TENON_ASSIGN_OR_RETURN(MeasuredPiece piece, piece_of(*found));
  std::vector<Json> rows;
  TENON_RETURN_IF_ERROR(get_member(*found, "requests", rows));
  for (const Json& row : rows) {
    TENON_ASSIGN_OR_RETURN(RequestRow read, row_of(row));
    piece.requests.push_back(std::move(read));
  }
  piece.arm = described_.name;
  return std::optional<MeasuredPiece>(std::move(piece));
}

Result<std::string> RunningArm::predict(const Comparison& comparison, const std::string& file) {
  TENON_ASSIGN_OR_RETURN(const auto found, ask({{"do", "predict"},
                                                {"text", comparison.text},
                                                {"tokens", comparison.text_tokens},
                                                {"window", comparison.text_window},
                                                {"out", file}}));
  std::string ids;
  if (found) TENON_RETURN_IF_ERROR(get_member(*found, "ids", ids));
  return ids;
}

Result<Fidelity> RunningArm::judge(const Comparison& comparison, const std::string& file,
                                   const std::string& base_ids) {
  TENON_ASSIGN_OR_RETURN(const auto found, ask({{"do", "judge"},
                                                {"text", comparison.text},
                                                {"tokens", comparison.text_tokens},
                                                {"window", comparison.text_window},
                                                {"against", file},
                                                {"ids", base_ids}}));
  if (!found) return ended_by_interrupt();
  return fidelity_of(*found);
}

Status RunningArm::check_model() const {
  if (state_of(model_path_) == model_state_) return {};
  return failed("the model of arm " + in_quotes(described_.name) + " in " +
                path_in_quotes(model_path_) +
                " changed while it was measured – all pieces must be of one model – compare again");
}

template <typename T>
Status RunningArm::get_member(const Json& json, const char* name, T& out) const {
  try {
    json.at(name).get_to(out);
  } catch (const Json::exception&) {
    return failure(failed("its answer has no '" + std::string(name) +
                          "' that can be read – expected a program of this version"));
  }
  return {};
}

Status RunningArm::failure(const Status& status) const {
  return with_context("arm " + in_quotes(described_.name), status);
}

Result<std::optional<Json>> RunningArm::answer() {
  Result<std::optional<std::string>> line = process_.read_line(go_on_);
  if (!line.ok()) return failure(line.status());
  if (!*line) return std::optional<Json>();
  Json json = Json::parse(**line, nullptr, false);
  if (json.is_discarded() || !json.is_object()) {
    return failure(failed("it answered with " + in_quotes(**line) + " – expected JSON"));
  }
  if (const auto error = json.find("error"); error != json.end()) {
    return failure(failed(error->is_string() ? error->get<std::string>() : error->dump()));
  }
  return std::optional<Json>(std::move(json));
}

Result<std::optional<Json>> RunningArm::ask(const Json& order) {
  if (Status status = process_.write_line(order.dump()); !status.ok()) return failure(status);
  return answer();
}

}  // namespace tenon
