#include "core/compare/folder.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "core/base/files/mapped_file.h"
#include "core/base/files/new_file.h"
#include "core/base/presence.h"
#include "core/base/quote.h"
#include "core/base/sha256.h"
#include "core/compare/json.h"

namespace tenon::compare {
namespace {

namespace fs = std::filesystem;
constexpr size_t kLargestFile = size_t{1} << 30;

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// Each whole line as JSON; the last one may have been cut.
Result<std::vector<Json>> read_lines(const std::string& path, std::vector<std::string>& notes) {
  std::vector<Json> out;
  if (!is_there(path)) return out;
  TENON_ASSIGN_OR_RETURN(const std::string text, read_text_file(path, kLargestFile));
  std::istringstream lines(text);
  std::string line;
  for (size_t number = 1; std::getline(lines, line); ++number) {
    Json json = Json::parse(line, nullptr, false);
    if (!json.is_discarded() && json.is_object()) {
      out.push_back(std::move(json));
      continue;
    }
    if (!lines.eof()) {
      return invalid_argument(path + ":" + std::to_string(number) + ": not a line of JSON");
    }
    notes.push_back(path + " ends in a line that was cut; it is left out");
  }
  return out;
}

std::string line_name(const std::string& path, size_t line) {
  return path + ":" + std::to_string(line + 1);
}

// Rows go to the piece whose number they name.
Status add_rows(const std::string& path, const std::vector<Json>& rows,
                std::vector<MeasuredPiece>& pieces) {
  for (size_t line = 0; line < rows.size(); ++line) {
    const Json& json = rows[line];
    const auto piece = json.find("piece");
    const bool numbered = piece != json.end() && piece->is_number_unsigned();
    const size_t number = numbered ? piece->get<size_t>() : SIZE_MAX;
    if (number >= pieces.size()) continue;  // of a piece that was cut
    Result<RequestRow> row = row_of(json);
    if (!row.ok()) return with_context(line_name(path, line), row.status());
    pieces[number].requests.push_back(*std::move(row));
  }
  return {};
}

}  // namespace

Result<Folder> Folder::create(const std::string& path) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (!fs::create_directory(path, error)) {
    return failed(
        path_in_quotes(path) +
        (error ? " cannot be made: " + error.message()
               : " is there already – results are never mixed – name another folder (--out)"));
  }
  Folder folder;
  folder.path_ = path;
  return folder;
}

Result<std::string> Folder::keep_workload(const std::string& path) const {
  TENON_ASSIGN_OR_RETURN(const std::string text, read_text_file(path));
  std::string copied = file("workload" + fs::path(path).extension().string());
  TENON_RETURN_IF_ERROR(write_file(copied, {text}));
  return copied;
}

Result<std::string> Folder::keep_arrivals(const std::string& workload,
                                          const std::string& arrivals_json) const {
  TENON_ASSIGN_OR_RETURN(const std::string text, read_text_file(workload));
  if (!arrivals_json.empty())
    TENON_RETURN_IF_ERROR(write_file(file("arrivals.json"), {arrivals_json}));
  return sha256_hex(text + arrivals_json);
}

Status Folder::write_head(const MeasuredComparison& measured) const {
  Json head = {{"format", 1}, {"plan", plan_json(measured.plan)}, {"arms", Json::array()}};
  for (size_t i = 0; i < measured.arms.size(); ++i) {
    head["arms"].push_back(arm_json(measured.arms[i]));
    // Names are anybody's; files are numbered.
    TENON_RETURN_IF_ERROR(
        write_file(file("arm" + std::to_string(i) + ".toml"),
                   {"# " + one_line(measured.arms[i].name) + "\n", measured.arms[i].resolved}));
  }
  return write_file(file("comparison.json"),
                    {head.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"});
}

Status Folder::append(File& file, const std::string& name, const std::string& line) {
  if (!file) file.reset(std::fopen(this->file(name).c_str(), "a"));
  const bool wrote = file && std::fwrite(line.data(), 1, line.size(), file.get()) == line.size() &&
                     std::fflush(file.get()) == 0;
  if (wrote) return {};
  return failed(path_in_quotes(this->file(name)) + " cannot be written: " + std::strerror(errno) +
                " – what stands there is whole – make room and compare again");
}

bool Folder::has_pieces() const {
  return is_there(file("pieces.jsonl"));
}

void Folder::remove() const {
  std::error_code error;
  fs::remove_all(path_, error);
}

Status Folder::add(const MeasuredPiece& piece) {
  const size_t number = pieces_written_++;
  std::string rows;
  for (const RequestRow& row : piece.requests) {
    Json json = {{"piece", number}};
    json.update(row_json(row));
    rows += line_of(json);
  }
  TENON_RETURN_IF_ERROR(append(requests_, "requests.jsonl", rows));
  return append(pieces_, "pieces.jsonl", line_of(piece_json(piece)));
}

Result<MeasuredComparison> read_folder(const std::string& path, std::vector<std::string>& notes) {
  Result<std::string> text = read_text_file(path + "/comparison.json");
  if (!text.ok()) {
    return invalid_argument(path_in_quotes(path) +
                            " is no folder of a comparison: " + message_of(text.status()));
  }
  const Json head = Json::parse(*text, nullptr, false);
  if (head.is_discarded() || !head.is_object() || !head.contains("format") || head["format"] != 1 ||
      !head.value("plan", Json::object()).is_object() ||
      !head.value("arms", Json::array()).is_array()) {
    return invalid_argument(path +
                            "/comparison.json is not of format 1 – expected what `tenon "
                            "compare` wrote – name its folder");
  }
  MeasuredComparison out;
  Result<MeasuredPlan> plan = plan_of(head.value("plan", Json::object()));
  if (!plan.ok()) return with_context(path + "/comparison.json", plan.status());
  out.plan = *std::move(plan);
  if (find_metric(out.plan.primary) == nullptr) {
    return invalid_argument(
        path + "/comparison.json is about " + in_quotes(out.plan.primary) +
        ", which this program does not know – show it with the one that wrote it");
  }
  for (const Json& json : head.value("arms", Json::array())) {
    Result<MeasuredArm> arm = arm_of(json);
    if (!arm.ok()) return with_context(path + "/comparison.json", arm.status());
    out.arms.push_back(*std::move(arm));
  }
  const std::string pieces_path = path + "/pieces.jsonl", rows_path = path + "/requests.jsonl";
  TENON_ASSIGN_OR_RETURN(const std::vector<Json> pieces, read_lines(pieces_path, notes));
  for (size_t line = 0; line < pieces.size(); ++line) {
    Result<MeasuredPiece> piece = piece_of(pieces[line]);
    if (!piece.ok()) return with_context(line_name(pieces_path, line), piece.status());
    out.pieces.push_back(*std::move(piece));
  }
  TENON_ASSIGN_OR_RETURN(const std::vector<Json> rows, read_lines(rows_path, notes));
  TENON_RETURN_IF_ERROR(add_rows(rows_path, rows, out.pieces));
  if (out.plan.ended.empty())
    notes.push_back(path + " is of a comparison that did not end by itself");
  return out;
}

Result<std::string> kept_workload(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().stem() == "workload") return entry.path().string();
  }
  return not_found("there is no workload in " + path_in_quotes(folder) +
                   "; expected a folder of results of `tenon compare`");
}

}  // namespace tenon::compare
