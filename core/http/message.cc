#include "core/http/message.h"

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "core/base/digest/hex.h"

namespace tenon::http {
namespace {

struct Phrase {
  unsigned status;
  std::string_view text;
};
constexpr Phrase kPhrases[] = {
    {200, "OK"},
    {204, "No Content"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {413, "Content Too Large"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {503, "Service Unavailable"},
    {505, "HTTP Version Not Supported"},
};

// As RFC 9110 writes it, whatever the locale.
std::string http_date() {
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[64];
  const int length = std::snprintf(text, sizeof(text), "%s, %02d %s %d %02d:%02d:%02d GMT",
                                   kDays[utc.tm_wday], utc.tm_mday, kMonths[utc.tm_mon],
                                   utc.tm_year + 1900, utc.tm_hour, utc.tm_min, utc.tm_sec);
  return {text, static_cast<size_t>(length)};
}

// Control characters would end the line, and begin another field.
void append_field(std::string& head, std::string_view name, std::string_view value) {
  head.append(name).append(": ");
  for (const char c : value) head += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  head += "\r\n";
}

}  // namespace

const std::string* Request::find(std::string_view name) const {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const Field& field) { return field.name == name; });
  return found == fields.end() ? nullptr : &found->value;
}

std::string_view reason_phrase(unsigned status) {
  const auto* found = std::find_if(std::begin(kPhrases), std::end(kPhrases),
                                   [&](const Phrase& phrase) { return phrase.status == status; });
  return found == std::end(kPhrases) ? std::string_view() : found->text;
}

std::string response_head(const Response& response, const HeadOptions& options) {
  std::string head = "HTTP/1.1 " + std::to_string(response.status) + " ";
  head.append(reason_phrase(response.status)).append("\r\n");
  append_field(head, "Date", http_date());
  for (const Field& field : response.fields) append_field(head, field.name, field.value);
  // These two have no body, and a length would be that of another answer.
  const bool has_body = response.status != 204 && response.status != 304;
  if (has_body && options.length >= 0) {
    append_field(head, "Content-Length", std::to_string(options.length));
  } else if (has_body && !options.is_1_0) {
    append_field(head, "Transfer-Encoding", "chunked");
  }
  if (!options.keep_alive) {
    append_field(head, "Connection", "close");
  } else if (options.is_1_0) {
    append_field(head, "Connection", "keep-alive");
  }
  return head + "\r\n";
}

bool percent_decoded(std::string_view text, std::string& out) {
  out.clear();
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = high >= 0 ? hex_digit(text[i + 2]) : -1;
    if (low < 0) return false;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return true;
}

}  // namespace tenon::http
