#include "core/http/head_check.h"

#include <algorithm>
#include <cstdio>

#include "core/base/quote.h"

namespace tenon::http {
namespace {

bool equals_ignoring_case(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(), [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a + 32) : a) == b;
  });
}

size_t count_of(const Request& request, std::string_view name) {
  return static_cast<size_t>(std::count_if(request.fields.begin(), request.fields.end(),
                                           [&](const Field& field) { return field.name == name; }));
}

HeadFault check_length(const Request& request) {
  const size_t lengths = count_of(request, "content-length");
  const size_t codings = count_of(request, "transfer-encoding");
  if (lengths + codings > 1) {
    return {400, "the length of the body is said more than once"};
  }
  if (codings == 1) {
    if (request.is_1_0) return {400, "HTTP/1.0 has no Transfer-Encoding"};
    const std::string& coding = *request.find("transfer-encoding");
    if (!equals_ignoring_case(coding, "chunked")) {
      return {400, "Transfer-Encoding is " + in_quotes(coding) + " – only chunked is known here"};
    }
  }
  if (lengths == 1) {
    const std::string& length = *request.find("content-length");
    const bool is_number = !length.empty() && length.find_first_not_of("0123456789") == length.npos;
    if (!is_number) return {400, "Content-Length is " + in_quotes(length) + ", which is no number"};
  }
  return {};
}

// A name or an address, and perhaps a port: no more than what may stand in a URL there.
bool is_host(std::string_view host) {
  return host.find_first_of(" \t,/?#@\\<>\"{}|^`") == host.npos;
}

}  // namespace

HeadFault check_head(const Request& request, unsigned version) {
  if (version != 10 && version != 11) return {505, "expected HTTP/1.0 or HTTP/1.1"};
  if (HeadFault fault = check_length(request); fault.status != 0) return fault;
  const size_t hosts = count_of(request, "host");
  if (hosts > 1) return {400, "there are " + std::to_string(hosts) + " Host fields – expected one"};
  if (hosts == 0 && version == 11) return {400, "there is no Host field – HTTP/1.1 requires one"};
  if (const std::string* host = request.find("host"); host != nullptr && !is_host(*host)) {
    return {400,
            "Host is " + in_quotes(*host) + " – expected a name or address, and perhaps a port"};
  }
  if (const std::string* expected = request.find("expect")) {
    if (version == 10 || !equals_ignoring_case(*expected, "100-continue")) {
      return {417, "Expect is " + in_quotes(*expected) + " – only 100-continue is known here"};
    }
  }
  return {};
}

void set_target(std::string_view target, Request& request) {
  if (!target.starts_with('/')) {
    const size_t scheme = target.find("://");
    const size_t slash = scheme == target.npos ? target.npos : target.find('/', scheme + 3);
    if (slash != target.npos) target.remove_prefix(slash);
  }
  target = target.substr(0, target.find('#'));
  const size_t mark = target.find('?');
  request.path = target.substr(0, mark);
  if (mark != target.npos) request.query = target.substr(mark + 1);
}

std::string chunk(std::string_view piece) {
  char size[20];
  const int length = std::snprintf(size, sizeof(size), "%zx\r\n", piece.size());
  std::string framed;
  framed.reserve(piece.size() + 24);
  framed.append(size, static_cast<size_t>(length)).append(piece).append("\r\n");
  return framed;
}

}  // namespace tenon::http
