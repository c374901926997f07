#include "core/compare/folder.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "core/base/digest/sha256.h"
#include "core/base/files/mapped_file.h"
#include "core/base/files/new_file.h"
#include "core/base/presence.h"
#include "core/base/quote.h"
#include "core/compare/json.h"
#include "core/report/statistics/requests_summary.h"

namespace tenon::compare {
namespace {

namespace fs = std::filesystem;
constexpr const char* kPiecesFile = "pieces.jsonl";
constexpr const char* kRowsFile = "requests.jsonl";

std::string line_name(const std::string& path, size_t line) {
  return path + ":" + std::to_string(line);
}

// Takes each whole line as JSON, one after the other; the last one may have been cut.
Status read_lines(const std::string& path, std::vector<std::string>& notes,
                  const std::function<Status(const Json&)>& take) {
  if (!is_there(path)) return {};
  std::ifstream lines(path);
  if (!lines) return failed(path_in_quotes(path) + " cannot be read: " + std::strerror(errno));
  std::string line;
  for (size_t number = 1; std::getline(lines, line); ++number) {
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_discarded() && json.is_object()) {
      const Status status = take(json);
      if (!status.ok()) return with_context(line_name(path, number), status);
      continue;
    }
    if (!lines.eof()) return invalid_argument(line_name(path, number) + ": not a line of JSON");
    notes.push_back(path + " ends in a line that was cut; it is left out");
  }
  return {};
}

// Rows go to the piece whose number they name, which is whole once another piece's begin.
class RowReader {
 public:
  RowReader(MeasuredComparison& measured, size_t most) : measured_(measured), most_(most) {}

  Status take(const Json& json) {
    const auto piece = json.find("piece");
    const bool numbered = piece != json.end() && piece->is_number_unsigned();
    const size_t number = numbered ? piece->get<size_t>() : SIZE_MAX;
    if (number >= measured_.pieces.size()) return {};  // of a piece that was cut
    if (number != at_) end_piece();
    at_ = number;
    TENON_ASSIGN_OR_RETURN(RequestRow row, row_of(json));
    if (measured_.pieces[number].summary) {
      return invalid_argument("rows of piece " + std::to_string(number) +
                              " stand in two places; expected them one after the other");
    }
    measured_.pieces[number].requests.push_back(std::move(row));
    return {};
  }
  void end_piece() {
    if (at_ == SIZE_MAX || measured_.pieces[at_].requests.size() <= most_) return;
    summarise(measured_.pieces[at_], measured_.plan, measured_.pieces);
  }

 private:
  MeasuredComparison& measured_;
  size_t most_;
  size_t at_ = SIZE_MAX;  // the piece that rows are read of
};

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

Status Folder::open_file(File& file, const std::string& name) const {
  if (!file) file.reset(std::fopen(this->file(name).c_str(), "a"));
  return file ? Status() : not_written(name);
}

Status Folder::not_written(const std::string& name) const {
  return failed(path_in_quotes(file(name)) + " cannot be written: " + std::strerror(errno) +
                " – what stands there is whole – make room and compare again");
}

bool Folder::has_pieces() const {
  return is_there(file(kPiecesFile));
}

void Folder::remove() const {
  std::error_code error;
  fs::remove_all(path_, error);
}

Status Folder::add(const MeasuredPiece& piece, std::optional<size_t> rows_of) {
  const size_t number = pieces_written_++;
  TENON_RETURN_IF_ERROR(open_file(requests_, kRowsFile));
  bool wrote = true;
  const auto put = [&wrote](const File& file, const std::string& line) {
    wrote = wrote && std::fwrite(line.data(), 1, line.size(), file.get()) == line.size();
  };
  for (size_t i = 0; wrote && !rows_of && i < piece.requests.size(); ++i) {
    Json json = {{"piece", number}};
    json.update(row_json(piece.requests[i]));
    put(requests_, line_of(json));
  }
  if (!wrote || std::fflush(requests_.get()) != 0) return not_written(kRowsFile);
  TENON_RETURN_IF_ERROR(open_file(pieces_, kPiecesFile));
  Json line = piece_json(piece);
  if (rows_of) line["rows_of"] = *rows_of;
  put(pieces_, line_of(line));
  return wrote && std::fflush(pieces_.get()) == 0 ? Status() : not_written(kPiecesFile);
}

Result<MeasuredComparison> read_folder(const std::string& path, std::vector<std::string>& notes,
                                       size_t most_rows) {
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
  std::map<size_t, size_t> rows_of;  // pieces with another one's rows
  TENON_RETURN_IF_ERROR(
      read_lines(path + "/" + kPiecesFile, notes, [&](const Json& json) -> Status {
        TENON_ASSIGN_OR_RETURN(MeasuredPiece piece, piece_of(json));
        const auto other = json.find("rows_of");
        if (other != json.end() && other->is_number_unsigned()) {
          rows_of[out.pieces.size()] = other->get<size_t>();
        }
        out.pieces.push_back(std::move(piece));
        return {};
      }));
  RowReader rows(out, most_rows);
  TENON_RETURN_IF_ERROR(
      read_lines(path + "/" + kRowsFile, notes, [&](const Json& json) { return rows.take(json); }));
  rows.end_piece();
  for (const auto& [piece, other] : rows_of) {
    if (other >= piece) continue;  // a file that somebody changed
    out.pieces[piece].requests = out.pieces[other].requests;
    out.pieces[piece].summary = out.pieces[other].summary;
  }
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
