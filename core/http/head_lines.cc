#include "core/http/head_lines.h"

#include <algorithm>

namespace tenon::http {
namespace {

constexpr std::string_view kFirstLine =
    "the first line is not METHOD TARGET HTTP/1.1 with one space in between";

// RFC 9110, 5.6.2.
bool is_token(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return is_letter || (c >= '0' && c <= '9') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Of a line without its end. Which versions are served is said elsewhere.
bool is_request_line(std::string_view line) {
  const size_t target = line.find(' ') + 1;
  if (target == 0 || !is_token(line.substr(0, target - 1))) return false;
  const size_t version = line.find(' ', target) + 1;
  if (version <= target + 1) return false;  // no version, or no target
  const std::string_view name = line.substr(version);
  return name.size() == 8 && name.starts_with("HTTP/") && is_digit(name[5]) && name[6] == '.' &&
         is_digit(name[7]);
}

}  // namespace

std::string_view HeadLines::fault_in(std::string_view bytes) {
  for (const char c : bytes) {
    if (has_ended_) break;
    if (const std::string_view fault = take(c); !fault.empty()) return fault;
    before_ = c;
  }
  return {};
}

std::string_view HeadLines::take(char c) {
  if (c == '\n') return before_ == '\r' ? end_line() : "a line ends with LF alone – expected CR LF";
  if (before_ == '\r') return "there is a CR that ends no line – expected CR LF, or neither";
  if (c == '\r') return {};
  if (c == '\0') return "there is a NUL in the head";
  if (is_first_) {
    line_ += c;
    return {};
  }
  if (line_.empty() && (c == ' ' || c == '\t')) {
    return "a field goes on in a second line – write it in one";
  }
  if (has_colon_) return {};
  has_colon_ = c == ':';
  if (has_colon_ && !is_token(line_)) {
    return "a field's name is none – expected a word, and the colon directly after it";
  }
  line_ += c;
  return {};
}

std::string_view HeadLines::end_line() {
  if (is_first_) {
    if (line_.empty()) return "there is an empty line before the request";
    if (!is_request_line(line_)) return kFirstLine;
  } else if (line_.empty()) {
    has_ended_ = true;
  } else if (!has_colon_) {
    return "a line of the head has no colon – expected NAME: VALUE";
  }
  is_first_ = false;
  has_colon_ = false;
  line_.clear();
  return {};
}

}  // namespace tenon::http
