#include "core/hub/pull/endpoint.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

#include "core/base/files/mapped_file.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/hub/cache.h"

namespace tenon::hub {
namespace {

constexpr size_t kMostAnswerBytes = size_t{64} << 20;
constexpr size_t kMostTokenBytes = 64 << 10;
constexpr size_t kMostPages = 1000;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : std::string(trim(value));
}
bool is_true(const char* name) {
  std::string value = variable(name);
  std::ranges::transform(value, value.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return value == "1" || value == "TRUE" || value == "YES" || value == "ON";
}

std::string token() {
  if (is_true("HF_HUB_DISABLE_IMPLICIT_TOKEN")) return "";
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    if (std::string value = variable(name); !value.empty()) return value;
  }
  std::string path = variable("HF_TOKEN_PATH");
  if (path.empty()) path = home_folder() + "/token";
  const auto text = read_text_file(path, kMostTokenBytes);
  return text.ok() ? std::string(trim(*text)) : "";
}

// All but what needs no escape in a path; `keep` as well.
std::string escaped(std::string_view text, std::string_view keep) {
  std::string out;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                       std::string_view("-._~").find(c) != std::string_view::npos ||
                       keep.find(c) != keep.npos;
    if (plain) {
      out += c;
    } else {
      char code[4];
      std::snprintf(code, sizeof(code), "%%%02X", static_cast<unsigned char>(c));
      out += code;
    }
  }
  return out;
}

// <https://…>; rel="next"
std::string next_page(const std::string& link) {
  for (const std::string_view each : split(link, ',')) {
    const size_t begin = each.find('<'), end = each.find('>');
    if (begin == each.npos || end == each.npos || end < begin) continue;
    if (each.find("rel=\"next\"", end) == each.npos) continue;
    return std::string(each.substr(begin + 1, end - begin - 1));
  }
  return "";
}

// The same scheme, host and port, as a token must go nowhere else.
bool is_below(const std::string& url, const std::string& base) {
  const size_t host = base.find("://");
  const size_t path = host == base.npos ? base.npos : base.find('/', host + 3);
  const std::string origin = base.substr(0, path);
  return url.starts_with(origin + "/");
}

bool is_busy(int status) {
  return status == 408 || status == 429 || (status >= 500 && status < 600);
}

}  // namespace

int patience_seconds(int n) {
  constexpr std::array kSeconds = {0, 1, 3};
  return n < static_cast<int>(kSeconds.size()) ? kSeconds[static_cast<size_t>(n)] : -1;
}

std::string endpoint() {
  std::string own = variable("HF_ENDPOINT");
  while (own.ends_with('/')) own.pop_back();
  return own.empty() ? "https://huggingface.co" : own;
}

Result<Endpoint> Endpoint::open() {
  for (const char* name : {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}) {
    if (!is_true(name)) continue;
    return unsupported(std::string(name) + " is set, which forbids to ask the hub; unset it");
  }
  TENON_ASSIGN_OR_RETURN(HttpSession session, HttpSession::open());
  return Endpoint(std::move(session), token());
}

std::vector<std::string> Endpoint::headers() const {
  if (token_.empty()) return {};
  return {"Authorization: Bearer " + token_};
}

Status Endpoint::refusal(const ModelName& name, const HttpAnswer& answer) const {
  const std::string model = in_quotes(name.repository);
  const std::string code = answer.header("x-error-code");
  const std::string text = one_line(answer.header("x-error-message"));
  const std::string at = endpoint() + "/" + name.repository;
  const std::string login = token_.empty() ? "set HF_TOKEN to a token that may read it"
                                           : "the token that was sent may not read it";
  if (code == "GatedRepo") {
    return unsupported(model +
                       " is gated: its authors give it to those who accepted their terms; "
                       "accept them at " +
                       at + ", and " + login);
  }
  if (code == "RevisionNotFound") {
    return not_found(model + " has no branch, tag or commit " + in_quotes(name.revision) +
                     "; see " + at + "/refs");
  }
  if (text.find("Invalid credentials") != text.npos) {
    return invalid_argument(
        "the hub does not know the token that was sent; see HF_TOKEN, or run "
        "'hf auth login'");
  }
  if (code == "RepoNotFound" || answer.status == 401 || answer.status == 404) {
    return not_found("there is no model " + model + " at " + endpoint() +
                     ", or it is private: then " + login);
  }
  if (answer.status == 429) {
    return failed("the hub wants fewer requests (status 429); try again in a few minutes" +
                  std::string(token_.empty() ? ", or set HF_TOKEN, which allows more" : ""));
  }
  return failed(at + ": the server answered with status " + std::to_string(answer.status) +
                (text.empty() ? "" : ", " + text) + "; try again later");
}

Result<Endpoint::Text> Endpoint::ask(const ModelName& name, const std::string& url) {
  for (int n = 0;; ++n) {
    Text text;
    const HttpSink take = [&](const HttpAnswer&, std::string_view bytes) {
      text.body += bytes;
      return text.body.size() <= kMostAnswerBytes;
    };
    const auto answer = session_.get({.url = url, .headers = headers(), .from_byte = 0}, take);
    if (answer.ok() && answer->status == 200) {
      text.head = *answer;
      return text;
    }
    const int wait = !answer.ok() || is_busy(answer->status) ? patience_seconds(n) : -1;
    if (wait < 0) {
      if (answer.ok()) return refusal(name, *answer);
      return failed(endpoint() + " cannot be asked: " + message_of(answer.status()) +
                    "; see http_proxy and https_proxy if there is a proxy, HF_ENDPOINT for a "
                    "mirror");
    }
    std::this_thread::sleep_for(std::chrono::seconds(wait));
  }
}

Result<std::string> Endpoint::commit_of(const ModelName& name) {
  TENON_ASSIGN_OR_RETURN(const Text text, ask(name, endpoint() + "/api/models/" + name.repository +
                                                        "/revision/" + escaped(name.revision, "")));
  return read_commit(text.body);
}

Result<std::vector<RemoteFile>> Endpoint::files_of(const ModelName& name,
                                                   const std::string& commit) {
  std::vector<RemoteFile> files;
  std::string url =
      endpoint() + "/api/models/" + name.repository + "/tree/" + commit + "?recursive=true";
  for (size_t page = 0; !url.empty(); ++page) {
    if (page == kMostPages) return failed("the hub's list of files does not end");
    TENON_ASSIGN_OR_RETURN(const Text text, ask(name, url));
    TENON_RETURN_IF_ERROR(read_tree(text.body, files));
    url = next_page(text.head.header("link"));
    if (!url.empty() && !is_below(url, endpoint())) {
      return failed("the hub's list of files goes on elsewhere, at " + in_quotes(url));
    }
  }
  return files;
}

Result<bool> Endpoint::read_file(const ModelName& name, const std::string& commit,
                                 const RemoteFile& file, uint64_t from_byte, const HttpSink& sink) {
  const HttpSink good = [&](const HttpAnswer& head, std::string_view bytes) {
    return (head.status != 200 && head.status != 206) || sink(head, bytes);
  };
  const auto answer = session_.get({.url = endpoint() + "/" + name.repository + "/resolve/" +
                                           commit + "/" + escaped(file.path, "/"),
                                    .headers = headers(),
                                    .from_byte = from_byte},
                                   good);
  if (!answer.ok()) {
    trouble_ = message_of(answer.status());
    return false;
  }
  if (is_busy(answer->status)) {
    trouble_ = "the server answered with status " + std::to_string(answer->status);
    return false;
  }
  if (answer->status != 200 && answer->status != 206) return refusal(name, *answer);
  return true;
}

}  // namespace tenon::hub
