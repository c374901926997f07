#include "core/base/json/json_pointer.h"

#include <algorithm>

#include "core/base/digest/hex.h"

namespace tenon {
namespace {

std::string without_tilde_escapes(std::string_view step) {
  std::string plain;
  for (size_t at = 0; at < step.size(); ++at) {
    const char next = step[at] == '~' && at + 1 < step.size() ? step[at + 1] : '\0';
    const bool is_escape = next == '0' || next == '1';
    plain += !is_escape ? step[at] : next == '0' ? '~' : '/';
    if (is_escape) ++at;
  }
  return plain;
}

}  // namespace

std::string without_percent_escapes(std::string_view text) {
  std::string plain;
  for (size_t at = 0; at < text.size(); ++at) {
    const bool may_escape = text[at] == '%' && at + 2 < text.size();
    const int high = may_escape ? hex_digit(text[at + 1]) : -1;
    const int low = may_escape ? hex_digit(text[at + 2]) : -1;
    if (high < 0 || low < 0) {
      plain += text[at];
      continue;
    }
    plain += static_cast<char>(high * 16 + low);
    at += 2;
  }
  return plain;
}

std::vector<std::string> json_pointer_steps(std::string_view pointer) {
  std::vector<std::string> steps;
  if (pointer.empty()) return steps;
  for (size_t at = 1; at <= pointer.size();) {
    const size_t end = std::min(pointer.find('/', at), pointer.size());
    steps.push_back(without_tilde_escapes(pointer.substr(at, end - at)));
    at = end + 1;
  }
  return steps;
}

std::optional<size_t> json_pointer_index(std::string_view step) {
  if (step.empty() || step.size() > 6) return std::nullopt;
  size_t index = 0;
  for (const char c : step) {
    if (c < '0' || c > '9') return std::nullopt;
    index = index * 10 + static_cast<size_t>(c - '0');
  }
  return index;
}

}  // namespace tenon
