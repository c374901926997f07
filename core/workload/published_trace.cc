#include "core/workload/published_trace.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/ascii.h"
#include "core/base/csv.h"
#include "core/base/files/given_text.h"
#include "core/base/files/mapped_file.h"
#include "core/base/json/json_fault.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/request/parameters.h"
#include "core/workload/request_list.h"

namespace tenon {
namespace {

using Json = nlohmann::json;
constexpr size_t kMostTraceBytes = size_t{1} << 30;
constexpr uint32_t kHashedTokens = 512;  // of a Mooncake block
constexpr double kMostSeconds = 1e8;     // as a workload's

using TraceRecord = CutTrace::Record;

std::optional<double> real_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

// "2023-11-16 18:15:46.6805900", "2024-05-10 00:00:00.009930+00:00", or seconds. All of a file are
// of one time zone, which therefore does not matter.
std::optional<double> seconds_of(std::string_view text) {
  if (const auto seconds = real_of(text)) return seconds;
  const size_t gap = text.find_first_of(" T");
  if (gap == text.npos) return std::nullopt;
  const std::vector<std::string_view> date = split(text.substr(0, gap), '-');
  const std::string_view clock = text.substr(gap + 1);
  const std::vector<std::string_view> time =
      split(clock.substr(0, clock.find_first_of("+-Z")), ':');
  if (date.size() != 3 || time.size() != 3) return std::nullopt;
  double parts[6];
  for (size_t i = 0; i < 6; ++i) {
    const auto part = real_of(i < 3 ? date[i] : time[i - 3]);
    if (!part || *part < 0 || *part > 9999) return std::nullopt;
    parts[i] = *part;
  }
  if (parts[3] >= 24 || parts[4] >= 60 || parts[5] >= 61) return std::nullopt;  // 60: a leap second
  const std::chrono::year_month_day day(std::chrono::year(static_cast<int>(parts[0])),
                                        std::chrono::month(static_cast<unsigned>(parts[1])),
                                        std::chrono::day(static_cast<unsigned>(parts[2])));
  if (!day.ok()) return std::nullopt;
  const auto days = std::chrono::sys_days(day).time_since_epoch().count();
  return 86400.0 * days + 3600 * parts[3] + 60 * parts[4] + parts[5];
}

// A column by any of its names; SIZE_MAX where there is none.
size_t column_of(const std::vector<std::string>& header,
                 std::initializer_list<std::string_view> names) {
  for (size_t i = 0; i < header.size(); ++i) {
    if (std::find(names.begin(), names.end(), header[i]) != names.end()) return i;
  }
  return SIZE_MAX;
}

// Whole, and within what can be counted with: the range is looked at later.
int64_t tokens_of(double written) {
  return std::llround(std::clamp(written, -1e15, 1e15));
}

class CsvTrace {
 public:
  Status begin(std::string_view line) {
    const std::vector<std::string> header = csv_cells(line);
    columns_ = {column_of(header, {"TIMESTAMP", "Timestamp"}),
                column_of(header, {"ContextTokens", "Request tokens"}),
                column_of(header, {"GeneratedTokens", "Response tokens"})};
    if (*std::max_element(columns_.begin(), columns_.end()) != SIZE_MAX) return {};
    return invalid_argument(
        "its columns are " + in_quotes(line) +
        " – expected TIMESTAMP, ContextTokens and GeneratedTokens (Azure), or Timestamp, Request "
        "tokens and Response tokens (BurstGPT) – give one of these");
  }

  Result<TraceRecord> record(std::string_view line) const {
    const std::vector<std::string> cells = csv_cells(line);
    if (cells.size() <= *std::max_element(columns_.begin(), columns_.end())) {
      return invalid_argument("there are " + std::to_string(cells.size()) + " cells");
    }
    const auto seconds = seconds_of(cells[columns_[0]]);
    const auto prompt = real_of(cells[columns_[1]]), answer = real_of(cells[columns_[2]]);
    for (size_t i = 0; i < columns_.size(); ++i) {
      const bool fine = i == 0 ? seconds.has_value() : (i == 1 ? prompt : answer).has_value();
      if (!fine) {
        return invalid_argument(in_quotes(cells[columns_[i]]) + " is no " +
                                (i == 0 ? "time" : "number of tokens"));
      }
    }
    return TraceRecord{*seconds, tokens_of(*prompt), tokens_of(*answer), {}};
  }

 private:
  std::array<size_t, 3> columns_{};
};

Result<TraceRecord> hashed_record(const std::string& line) {
  TraceRecord out;
  try {
    const Json json = Json::parse(line);
    out.seconds = json.at("timestamp").get<double>() * 1e-3;
    out.prompt_tokens = tokens_of(json.at("input_length").get<double>());
    out.answer_tokens = tokens_of(json.at("output_length").get<double>());
    json.value("hash_ids", Json::array()).get_to(out.blocks);
  } catch (const Json::exception& error) {
    return invalid_argument(
        "not a line of such a trace (" + json_fault(error.what()) +
        ") – expected {\"timestamp\": ms, \"input_length\": n, \"output_length\": n, "
        "\"hash_ids\": [ids]}");
  }
  if (std::any_of(out.blocks.begin(), out.blocks.end(), [](int64_t id) { return id < 0; })) {
    return invalid_argument("a hash_id is below 0 – expected whole numbers from 0 on");
  }
  const int64_t blocks = (out.prompt_tokens + kHashedTokens - 1) / kHashedTokens;
  if (!out.blocks.empty() && static_cast<int64_t>(out.blocks.size()) != blocks) {
    return invalid_argument(std::to_string(out.blocks.size()) + " hash_ids stand for " +
                            std::to_string(out.prompt_tokens) + " tokens – expected one for each " +
                            std::to_string(kHashedTokens));
  }
  return out;
}

// "a.csv", and "A.CSV".
bool has_ending(std::string_view path, std::string_view ending) {
  return path.size() >= ending.size() &&
         lower_ascii(path.substr(path.size() - ending.size())) == ending;
}

// In the order of their times; `earlier` gets how many came before the one in the line above.
Result<std::vector<TraceRecord>> read_records(const std::string& path, size_t& earlier) {
  TENON_ASSIGN_OR_RETURN(const std::string text, read_text_file(path, kMostTraceBytes));
  const bool csv = has_ending(path, ".csv");
  std::vector<TraceRecord> records;
  CsvTrace table;
  bool begun = false;  // the header was read
  std::istringstream lines{std::string(without_byte_order_mark(text))};
  std::string line;
  for (size_t number = 1; std::getline(lines, line); ++number) {
    const std::string place = path + ":" + std::to_string(number);
    if (trim(line).empty()) continue;
    if (csv && !begun) {
      begun = true;
      if (const Status status = table.begin(line); !status.ok()) return with_context(place, status);
      continue;
    }
    Result<TraceRecord> record = csv ? table.record(line) : hashed_record(line);
    if (!record.ok()) return with_context(place, record.status());
    const bool sound = record->prompt_tokens >= 0 && record->answer_tokens >= 0 &&
                       record->prompt_tokens <= kMostParameterTokens &&
                       record->answer_tokens <= kMostParameterTokens;
    if (!sound) {
      return with_context(
          place,
          invalid_argument("a request of " + std::to_string(record->prompt_tokens) + " and " +
                           std::to_string(record->answer_tokens) + " tokens – expected 0 to " +
                           std::to_string(kMostParameterTokens)));
    }
    earlier += !records.empty() && record->seconds < records.back().seconds ? 1 : 0;
    records.push_back(*std::move(record));
  }
  std::stable_sort(records.begin(), records.end(), [](const TraceRecord& a, const TraceRecord& b) {
    return a.seconds < b.seconds;
  });
  return records;
}

uint32_t scaled(int64_t tokens, double scale) {
  return static_cast<uint32_t>(
      std::clamp<double>(std::round(static_cast<double>(tokens) * scale), 1, kMostParameterTokens));
}

int64_t last_block_of(const TraceRecord& record) {
  return record.prompt_tokens -
         int64_t{kHashedTokens} * (static_cast<int64_t>(record.blocks.size()) - 1);
}

std::string request_toml(const TraceRecord& record, const TraceCut& cut, int64_t arrival_ns) {
  std::ostringstream out;
  out << "\n[[request]]\narrival = \"" << format_duration(arrival_ns)
      << "\"\nmax_tokens = " << scaled(record.answer_tokens, cut.length_scale) << "\n";
  if (record.blocks.empty()) {
    out << "prompt_tokens = " << scaled(record.prompt_tokens, cut.length_scale) << "\n";
    return out.str();
  }
  out << "block_tokens = " << scaled(kHashedTokens, cut.length_scale)
      << "\nlast_block_tokens = " << scaled(last_block_of(record), cut.length_scale)
      << "\nblocks = [";
  for (size_t i = 0; i < record.blocks.size(); ++i) out << (i == 0 ? "" : ", ") << record.blocks[i];
  out << "]\n";
  return out.str();
}

// Of the request that is written; blocks are scaled each.
uint64_t length_of(const TraceRecord& record, const TraceCut& cut) {
  const auto tokens = [&](int64_t count) { return uint64_t{scaled(count, cut.length_scale)}; };
  const uint64_t answer = tokens(record.answer_tokens);
  if (record.blocks.empty()) return tokens(record.prompt_tokens) + answer;
  return tokens(kHashedTokens) * (record.blocks.size() - 1) + tokens(last_block_of(record)) +
         answer;
}

}  // namespace

bool is_trace(const std::string& path) {
  if (has_ending(path, ".csv")) return true;
  if (!has_ending(path, ".jsonl")) return false;
  // Its first line alone is read.
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file.ok()) return false;
  const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()),
                              file->bytes().size());
  return text.substr(0, text.find('\n')).find("\"input_length\"") != text.npos;
}

Result<CutTrace> cut_trace(const std::string& path, const TraceCut& cut) {
  CutTrace out(std::filesystem::path(path).filename().string(), cut);
  TENON_ASSIGN_OR_RETURN(std::vector<TraceRecord> records, read_records(path, out.earlier_));
  const size_t read = records.size();
  double latest = 0;
  size_t kept = 0;  // they move to the front
  for (size_t i = std::min<size_t>(cut.skip, read); i < read; ++i) {
    TraceRecord& record = records[i];
    if (cut.limit != 0 && kept == cut.limit) break;
    if (record.prompt_tokens == 0 || record.answer_tokens == 0) {
      ++out.empty_;
    } else if (cut.context_tokens != 0 && length_of(record, cut) > cut.context_tokens) {
      ++out.too_long_;
    } else {
      const double first = kept == 0 ? record.seconds : records.front().seconds;
      latest = (record.seconds - first) / cut.scale;
      if (latest > kMostSeconds) break;
      if (kept != i) records[kept] = std::move(record);
      ++kept;
    }
  }
  if (read == 0) {
    return invalid_argument(path_in_quotes(path) +
                            " has no request – expected a line for each, after the names of the "
                            "columns in a .csv");
  }
  if (kept == 0) {
    return invalid_argument(path_in_quotes(path) + " has no request that is left (" +
                            std::to_string(read) + " read, " + std::to_string(out.too_long_) +
                            " too long) – take less away");
  }
  if (latest > kMostSeconds) {
    return invalid_argument(path + ": a request arrives after " + format_real(latest) +
                            " seconds – expected " + format_real(kMostSeconds) +
                            " at most – take fewer (limit), or let them arrive faster (scale)");
  }
  records.resize(kept);
  out.records_ = std::move(records);
  return out;
}

int64_t CutTrace::arrival_ns(const Record& record) const {
  return std::llround((record.seconds - records_.front().seconds) / cut_.scale * 1e6) * 1000;
}

std::string CutTrace::toml() const {
  std::string name = name_;
  for (char& letter : name) {
    if (letter == '"' || letter == '\\' || static_cast<unsigned char>(letter) < ' ') letter = '_';
  }
  std::string out = "format = 1\ntitle = \"" + name + ": " + std::to_string(requests()) +
                    " requests, arrivals times " + format_real(cut_.scale) + ", lengths times " +
                    format_real(cut_.length_scale) + "\"\n";
  for (const Record& record : records_) out += request_toml(record, cut_, arrival_ns(record));
  return out;
}

RequestList CutTrace::list() const {
  RequestList out;
  RequestTable all;
  all.block_tokens = scaled(kHashedTokens, cut_.length_scale);
  out.begin_table(all);
  for (const Record& record : records_) {
    const uint32_t answer = scaled(record.answer_tokens, cut_.length_scale);
    if (record.blocks.empty()) {
      out.add(scaled(record.prompt_tokens, cut_.length_scale), answer, arrival_ns(record));
    } else {
      out.add(record.blocks, scaled(last_block_of(record), cut_.length_scale), answer,
              arrival_ns(record));
    }
  }
  return out;
}

std::string CutTrace::order_note() const {
  if (earlier_ == 0) return "";
  return std::to_string(earlier_) +
         (earlier_ == 1 ? " line of the trace is" : " lines of the trace are") +
         " out of order, with an earlier time than the line before; requests are taken in the "
         "order of their times";
}

std::string CutTrace::lines_ending() const {
  const bool shares =
      std::ranges::any_of(records_, [](const Record& record) { return !record.blocks.empty(); });
  return shares ? ".jsonl" : ".csv";
}

std::string CutTrace::lines() const {
  const bool csv = lines_ending() == ".csv";
  std::string out = csv ? "TIMESTAMP,ContextTokens,GeneratedTokens\n" : "";
  char text[160];
  for (const Record& record : records_) {
    const double us = static_cast<double>(arrival_ns(record)) * 1e-3;
    const uint32_t answer = scaled(record.answer_tokens, cut_.length_scale);
    const uint32_t prompt = scaled(record.prompt_tokens, cut_.length_scale);
    std::snprintf(text, sizeof(text),
                  csv ? "%.6f,%u,%u\n"
                      : "{\"timestamp\": %.3f, \"input_length\": %u, \"output_length\": %u, ",
                  us * (csv ? 1e-6 : 1e-3), prompt, answer);
    out += text;
    if (csv) continue;
    out += "\"hash_ids\": [";
    for (size_t i = 0; i < record.blocks.size(); ++i) {
      out += (i == 0 ? "" : ", ") + std::to_string(record.blocks[i]);
    }
    out += "]}\n";
  }
  return out;
}

Result<TraceWorkload> read_trace(const std::string& path, const TraceCut& cut) {
  TENON_ASSIGN_OR_RETURN(const CutTrace made, cut_trace(path, cut));
  return TraceWorkload{made.toml(), made.requests(), made.empty(), made.too_long(),
                       made.order_note()};
}

}  // namespace tenon
