#include "core/hub/pull/curl.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <type_traits>
#include <utility>

#include "core/base/ascii.h"
#include "core/base/quote.h"
#include "core/base/text.h"

namespace tenon::hub {
namespace {

// libcurl 7.64 and later, without its headers. The numbers are part of its ABI, which has been the
// same since 2006 (libcurl.so.4).
enum Option : int {
  kWriteData = 10001,
  kUrl = 10002,
  kRange = 10007,
  kErrorBuffer = 10010,
  kUserAgent = 10018,
  kHttpHeader = 10023,
  kHeaderData = 10029,
  kCertificates = 10065,
  kLowSpeedLimit = 19,
  kLowSpeedTime = 20,
  kFollowLocation = 52,
  kMostRedirects = 68,
  kConnectTimeout = 78,
  kNoSignal = 99,
  kProtocols = 181,
  kRedirectProtocols = 182,
  kWriteFunction = 20011,
  kHeaderFunction = 20079,
};
constexpr long kHttpAndHttps = 3;      // CURLPROTO_HTTP | CURLPROTO_HTTPS
constexpr int kStatus = 0x200000 + 2;  // CURLINFO_RESPONSE_CODE
constexpr int kWriteError = 23;
constexpr long kGlobalAll = 3;
constexpr size_t kErrorBytes = 256;
constexpr long kSilenceSeconds = 60;

struct Library {
  int (*global_init)(long) = nullptr;
  void* (*easy_init)() = nullptr;
  int (*setopt)(void*, int, ...) = nullptr;
  int (*perform)(void*) = nullptr;
  int (*getinfo)(void*, int, ...) = nullptr;
  void (*reset)(void*) = nullptr;
  void (*cleanup)(void*) = nullptr;
  const char* (*error_text)(int) = nullptr;
  void* (*list_append)(void*, const char*) = nullptr;
  void (*list_free)(void*) = nullptr;
  bool whole = false;

  Library() {
    void* library = nullptr;
    for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl-nss.so.4"}) {
      if (library == nullptr) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    if (library == nullptr) return;
    whole = true;
    const auto find = [&](const char* name, auto& function) {
      void* const found = ::dlsym(library, name);
      whole = whole && found != nullptr;
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
    };
    find("curl_global_init", global_init);
    find("curl_easy_init", easy_init);
    find("curl_easy_setopt", setopt);
    find("curl_easy_perform", perform);
    find("curl_easy_getinfo", getinfo);
    find("curl_easy_reset", reset);
    find("curl_easy_cleanup", cleanup);
    find("curl_easy_strerror", error_text);
    find("curl_slist_append", list_append);
    find("curl_slist_free_all", list_free);
    whole = whole && global_init(kGlobalAll) == 0;
  }
};

const Library& curl() {
  static const Library kLoaded;
  return kLoaded;
}

struct Transfer {
  void* handle;
  const HttpSink& sink;
  HttpAnswer answer;
};

// One line of a head; a redirect or a proxy begins a new one.
size_t take_header(const char* bytes, size_t size, size_t count, void* data) {
  auto& transfer = *static_cast<Transfer*>(data);
  const std::string_view line = trim(std::string_view(bytes, size * count));
  const size_t colon = line.find(':');
  if (line.starts_with("HTTP/")) {
    transfer.answer.headers.clear();
  } else if (colon != line.npos) {
    transfer.answer.headers[lower_ascii(line.substr(0, colon))] = trim(line.substr(colon + 1));
  }
  return size * count;
}

int status_of(void* handle) {
  long status = 0;
  curl().getinfo(handle, kStatus, &status);
  return static_cast<int>(status);
}

size_t take_bytes(const char* bytes, size_t size, size_t count, void* data) {
  auto& transfer = *static_cast<Transfer*>(data);
  transfer.answer.status = status_of(transfer.handle);
  const bool taken = transfer.sink(transfer.answer, std::string_view(bytes, size * count));
  return taken ? size * count : 0;
}

}  // namespace

std::string HttpAnswer::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

Result<HttpSession> HttpSession::open() {
  void* const handle = curl().whole ? curl().easy_init() : nullptr;
  if (handle == nullptr) {
    return unsupported(
        "models are brought by libcurl (libcurl.so.4), which is not here – install libcurl4, or "
        "bring the model with 'hf download', which writes the same cache");
  }
  return HttpSession(handle);
}

HttpSession::HttpSession(HttpSession&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)) {}

HttpSession::~HttpSession() {
  if (handle_ != nullptr) curl().cleanup(handle_);
}

Result<HttpAnswer> HttpSession::get(const HttpRequest& request, const HttpSink& sink) const {
  const Library& with = curl();
  Transfer transfer{.handle = handle_, .sink = sink, .answer = {}};
  std::array<char, kErrorBytes> why{};
  void* list = nullptr;
  for (const std::string& header : request.headers) list = with.list_append(list, header.c_str());
  const std::unique_ptr<void, void (*)(void*)> headers(list, with.list_free);
  with.reset(handle_);
  with.setopt(handle_, kUrl, request.url.c_str());
  with.setopt(handle_, kHttpHeader, list);
  with.setopt(handle_, kUserAgent, "tenon");
  with.setopt(handle_, kErrorBuffer, why.data());
  with.setopt(handle_, kNoSignal, 1L);
  with.setopt(handle_, kFollowLocation, 1L);
  with.setopt(handle_, kMostRedirects, 10L);
  with.setopt(handle_, kProtocols, kHttpAndHttps);
  with.setopt(handle_, kRedirectProtocols, kHttpAndHttps);
  with.setopt(handle_, kConnectTimeout, 20L);
  with.setopt(handle_, kLowSpeedLimit, 1L);
  with.setopt(handle_, kLowSpeedTime, kSilenceSeconds);
  // No "resume" of libcurl's, which takes an answer with the whole file for a fault.
  const std::string range = std::to_string(request.from_byte) + "-";
  if (request.from_byte > 0) with.setopt(handle_, kRange, range.c_str());
  with.setopt(handle_, kHeaderFunction, &take_header);
  with.setopt(handle_, kHeaderData, &transfer);
  with.setopt(handle_, kWriteFunction, &take_bytes);
  with.setopt(handle_, kWriteData, &transfer);
  // As other programs of the hub read it, for a proxy that signs by itself.
  if (const char* const file = std::getenv("SSL_CERT_FILE"); file != nullptr && *file != '\0') {
    with.setopt(handle_, kCertificates, file);
  }
  const int code = with.perform(handle_);
  transfer.answer.status = status_of(handle_);
  if (code == 0) return transfer.answer;
  if (code == kWriteError) return failed("the transfer was ended here");
  return failed(one_line(why[0] != '\0' ? why.data() : with.error_text(code)));
}

}  // namespace tenon::hub
