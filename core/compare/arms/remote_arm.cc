#include "core/compare/arms/remote_arm.h"

#include <algorithm>
#include <filesystem>

#include "core/base/quote.h"

namespace tenon::compare {
namespace {

namespace fs = std::filesystem;

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

// Prompts that are drawn for servers are ids that any vocabulary has.
constexpr uint32_t kServedVocabulary = 1000;
constexpr size_t kMostReserved = 1'000'000;  // rows, by the word of another process

uint32_t drawn_vocabulary(const Comparison& comparison) {
  const bool any = !comparison.url.empty() ||
                   std::any_of(comparison.arms.begin(), comparison.arms.end(),
                               [](const ComparisonArm& arm) { return !arm.url.empty(); });
  return any ? kServedVocabulary : 0;
}

}  // namespace

Result<std::unique_ptr<Arm>> RemoteArm::start(std::unique_ptr<LineChannel> channel,
                                              const std::string& name,
                                              std::function<bool()> go_on) {
  std::unique_ptr<RemoteArm> arm(new RemoteArm(std::move(channel), std::move(go_on)));
  arm->described_.name = name;
  TENON_ASSIGN_OR_RETURN(const auto ready, arm->answer());
  if (!ready) return arm->given_up();
  TENON_ASSIGN_OR_RETURN(const auto described, arm->ask({{"do", "describe"}}));
  if (!described) return arm->given_up();
  TENON_ASSIGN_OR_RETURN(arm->described_, arm_of(*described));
  arm->described_.name = name;
  // As TOML writes it: between quotes.
  const std::string path = resolved_value(arm->described_.resolved, "model.path");
  if (path.size() >= 2) arm->model_path_ = path.substr(1, path.size() - 2);
  arm->model_state_ = state_of(arm->model_path_);
  return std::unique_ptr<Arm>(std::move(arm));
}

Result<std::vector<int64_t>> RemoteArm::load(const std::string& workload,
                                             const Comparison& comparison,
                                             const std::vector<int64_t>* arrivals_ns) {
  Json order = {{"do", "load"},
                {"workload", workload},
                {"max_tokens", comparison.max_tokens},
                {"in_flight", comparison.in_flight},
                {"vocabulary", drawn_vocabulary(comparison)}};
  if (arrivals_ns != nullptr) order["arrivals_ns"] = *arrivals_ns;
  TENON_ASSIGN_OR_RETURN(const auto loaded, ask(order));
  if (!loaded) return given_up();
  std::vector<int64_t> arrivals;
  TENON_RETURN_IF_ERROR(get_member(*loaded, "arrivals_ns", arrivals));
  return arrivals;
}

Result<ArmTurn> RemoteArm::begin(const ArmOrder& order) {
  Json json = {{"do", "run"},        {"digests", order.digests}, {"salt", order.salt},
               {"warm", order.warm}, {"keep", order.keep},       {"row_lines", true}};
  if (!order.count_waits) json["count_waits"] = false;
  if (!order.record.empty()) json["record"] = order.record;
  if (order.arrivals_ns != nullptr) json["arrivals_ns"] = *order.arrivals_ns;
  if (order.turn_steps > 0) json["turn_steps"] = order.turn_steps;
  return turn(json);
}

Result<ArmTurn> RemoteArm::go_on() {
  return turn({{"do", "go_on"}});
}

Result<ArmTurn> RemoteArm::turn(const Json& order) {
  TENON_ASSIGN_OR_RETURN(auto found, ask(order));
  std::vector<RequestRow> rows;
  while (found && found->contains("rows")) {
    size_t all = 0;
    TENON_RETURN_IF_ERROR(get_member(*found, "of", all));
    rows.reserve(std::min(all, kMostReserved));
    TENON_RETURN_IF_ERROR(take_rows(*found, "rows", rows));
    TENON_ASSIGN_OR_RETURN(found, answer());
  }
  if (!found) return ArmTurn{.end = ArmTurn::End::given_up};
  if (found->value("waits", false)) return ArmTurn{.end = ArmTurn::End::waits};
  TENON_ASSIGN_OR_RETURN(MeasuredPiece piece, piece_of(*found));
  TENON_RETURN_IF_ERROR(take_rows(*found, "requests", rows));
  piece.requests = std::move(rows);
  piece.arm = described_.name;
  return ArmTurn{.end = ArmTurn::End::done, .piece = std::move(piece)};
}

Status RemoteArm::take_rows(const Json& from, const char* name,
                            std::vector<RequestRow>& out) const {
  const auto found = from.find(name);
  if (found == from.end() || !found->is_array()) {
    return failure(failed("its answer has no '" + std::string(name) +
                          "' that can be read – expected a program of this version"));
  }
  for (const Json& row : *found) {
    TENON_ASSIGN_OR_RETURN(RequestRow read, row_of(row));
    out.push_back(std::move(read));
  }
  return {};
}

Result<std::string> RemoteArm::predict(const Comparison& comparison, const std::string& file) {
  TENON_ASSIGN_OR_RETURN(const auto found, ask({{"do", "predict"},
                                                {"text", comparison.text},
                                                {"tokens", comparison.text_tokens},
                                                {"window", comparison.text_window},
                                                {"out", file}}));
  std::string ids;
  if (found) TENON_RETURN_IF_ERROR(get_member(*found, "ids", ids));
  return ids;
}

Result<Fidelity> RemoteArm::judge(const Comparison& comparison, const std::string& file,
                                  const std::string& base_ids) {
  TENON_ASSIGN_OR_RETURN(const auto found, ask({{"do", "judge"},
                                                {"text", comparison.text},
                                                {"tokens", comparison.text_tokens},
                                                {"window", comparison.text_window},
                                                {"against", file},
                                                {"ids", base_ids}}));
  if (!found) return given_up();
  return fidelity_of(*found);
}

Status RemoteArm::check_model() const {
  if (state_of(model_path_) == model_state_) return {};
  return failed("the model of arm " + in_quotes(described_.name) + " in " +
                path_in_quotes(model_path_) +
                " changed while it was measured – all pieces must be of one model – compare again");
}

template <typename T>
Status RemoteArm::get_member(const Json& json, const char* name, T& out) const {
  try {
    json.at(name).get_to(out);
  } catch (const Json::exception&) {
    return failure(failed("its answer has no '" + std::string(name) +
                          "' that can be read – expected a program of this version"));
  }
  return {};
}

Status RemoteArm::failure(const Status& status) const {
  return with_context("arm " + in_quotes(described_.name), status);
}

Status RemoteArm::given_up() const {
  return failure(failed("it had not answered when the comparison was ended"));
}

Result<std::optional<Json>> RemoteArm::answer() {
  Result<std::optional<std::string>> line = channel_->read_line(go_on_);
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

Result<std::optional<Json>> RemoteArm::ask(const Json& order) {
  if (Status status = channel_->write_line(order.dump()); !status.ok()) return failure(status);
  return answer();
}

}  // namespace tenon::compare
