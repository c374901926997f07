#include "core/server/page.h"

#include "core/base/digest/sha256.h"
#include "core/server/api/read/other_calls.h"
#include "core/server/page_parts.h"

namespace tenon::server {
namespace {

struct Page {
  std::string text;
  std::string tag;     // in quotes
  std::string policy;  // Content-Security-Policy
};

// 'sha256-…': exactly this text, inline.
std::string named_by_hash(std::string_view text) {
  const auto hash = sha256(std::as_bytes(std::span(text.data(), text.size())));
  const std::string bytes(hash.begin(), hash.end());
  return "'sha256-" + api::base64(bytes) + "'";
}

// Nothing is loaded from anywhere, and only this server is talked to.
std::string policy_of(const PageParts& parts) {
  return "default-src 'none'; script-src " + named_by_hash(parts.scripts) + "; style-src " +
         named_by_hash(parts.styles) +
         "; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
         "frame-ancestors 'none'";
}

Page make_page() {
  Page page;
  for (const std::string_view part : {kPageParts.head, kPageParts.styles, kPageParts.middle,
                                      kPageParts.scripts, kPageParts.tail}) {
    page.text += part;
  }
  page.tag = "\"" + sha256_hex(page.text).substr(0, 32) + "\"";
  page.policy = policy_of(kPageParts);
  return page;
}

const Page& the_page() {
  static const Page kPage = make_page();
  return kPage;
}

}  // namespace

http::Response page_response(const http::Request& request) {
  const Page& page = the_page();
  http::Response response;
  response.fields = {{"ETag", page.tag},
                     {"Cache-Control", "no-cache"},
                     {"Content-Security-Policy", page.policy},
                     {"X-Content-Type-Options", "nosniff"},
                     {"Referrer-Policy", "no-referrer"},
                     {"Cross-Origin-Opener-Policy", "same-origin"}};
  const std::string* known = request.find("if-none-match");
  if (known != nullptr && (*known == "*" || known->find(page.tag) != known->npos)) {
    response.status = 304;
    return response;
  }
  response.fields.push_back({"Content-Type", "text/html; charset=utf-8"});
  response.body = page.text;
  return response;
}

}  // namespace tenon::server
