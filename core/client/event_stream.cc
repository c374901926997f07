#include "core/client/event_stream.h"

namespace tenon::client {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

bool EventStream::put(std::string_view bytes) {
  while (!bytes.empty() && !is_over_) {
    if (after_return_ && bytes.front() == '\n') {
      after_return_ = false;
      bytes.remove_prefix(1);
      continue;
    }
    after_return_ = false;
    const size_t end = bytes.find_first_of("\r\n");
    const std::string_view part = bytes.substr(0, end);
    if (line_.size() + part.size() + data_.size() > most_bytes_) {
      is_too_long_ = is_over_ = true;
      break;
    }
    line_.append(part);
    if (end == bytes.npos) break;
    after_return_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    if (!end_line()) is_over_ = true;
  }
  return !is_over_;
}

bool EventStream::end_line() {
  std::string_view line = line_;
  if (at_start_ && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  at_start_ = false;
  const bool go_on = take_line(line);
  line_.clear();
  return go_on;
}

// Of the fields of an event only the data matter here.
bool EventStream::take_line(std::string_view line) {
  if (line.empty()) {
    if (!has_data_) return true;
    has_data_ = false;
    data_.pop_back();
    const bool go_on = on_data_(data_);
    data_.clear();
    return go_on;
  }
  const size_t colon = line.find(':');
  if (line.substr(0, colon) != "data") return true;
  std::string_view value = colon == line.npos ? std::string_view() : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  data_.append(value).push_back('\n');
  has_data_ = true;
  return true;
}

}  // namespace tenon::client
