#include "core/client/answer_reader.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/json/nesting.h"
#include "core/base/quote.h"
#include "core/client/event_stream.h"

namespace tenon::client {
namespace {

// Objects of a hostile server may have millions of keys: they are found by halving, not in turn.
using Json = nlohmann::json;

constexpr size_t kDeepest = 64;
constexpr size_t kMostErrorBytes = 64 << 10;
constexpr size_t kMostWholeBytes = size_t{64} << 20;
constexpr size_t kMostTextBytes = size_t{64} << 20;
constexpr size_t kMostTokens = size_t{1} << 22;
constexpr uint64_t kMostCounted = 1'000'000'000;

std::optional<Json> parsed(std::string_view text) {
  if (is_nested_deeper(text, kDeepest)) return std::nullopt;
  Json json = Json::parse(text.begin(), text.end(), nullptr, false);
  if (json.is_discarded()) return std::nullopt;
  return json;
}

// Null where there is none.
const Json* member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string text_member(const Json& object, const char* name) {
  const Json* found = member(object, name);
  return found != nullptr && found->is_string() ? found->get<std::string>() : std::string();
}

uint32_t count_member(const Json& object, const char* name) {
  const Json* found = member(object, name);
  if (found == nullptr || !found->is_number_unsigned()) return 0;
  return static_cast<uint32_t>(std::min(found->get<uint64_t>(), kMostCounted));
}

size_t length_of(const Json* list) {
  return list != nullptr && list->is_array() ? list->size() : 0;
}

std::string message_in(const Json& body) {
  const Json* error = member(body, "error");
  if (error != nullptr && error->is_string()) return error->get<std::string>();
  if (error != nullptr) {
    if (std::string text = text_member(*error, "message"); !text.empty()) return text;
  }
  for (const char* name : {"message", "detail"}) {
    const Json* found = member(body, name);
    if (found == nullptr) continue;
    return found->is_string() ? found->get<std::string>()
                              : found->dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return "";
}

// What a piece of an answer says: in completions a text, in chats all that makes up a message.
std::string text_of(const Json& choice, bool chat) {
  if (!chat) return text_member(choice, "text");
  const Json* message = member(choice, "delta");
  if (message == nullptr) message = member(choice, "message");
  if (message == nullptr) return "";
  // Servers give reasoning one of two names, or both.
  std::string text = text_member(*message, "reasoning_content");
  if (text.empty()) text = text_member(*message, "reasoning");
  text += text_member(*message, "content");
  const Json* calls = member(*message, "tool_calls");
  for (size_t i = 0; i < length_of(calls); ++i) {
    const Json* function = member((*calls)[i], "function");
    if (function == nullptr) continue;
    text += text_member(*function, "name") + text_member(*function, "arguments");
  }
  return text;
}

struct Counted {
  size_t tokens = 0;
  CountedBy by = CountedBy::nothing;
};
Counted tokens_in(const Json& choice, const std::string& text) {
  if (const size_t ids = length_of(member(choice, "token_ids")); ids > 0) {
    return {ids, CountedBy::token_ids};
  }
  if (const Json* logprobs = member(choice, "logprobs")) {
    const size_t scored =
        std::max(length_of(member(*logprobs, "content")), length_of(member(*logprobs, "tokens")));
    if (scored > 0) return {scored, CountedBy::logprobs};
  }
  if (!text.empty()) return {1, CountedBy::events};
  return {};
}

bool is_event_stream(const std::vector<http::Field>& fields) {
  return std::any_of(fields.begin(), fields.end(), [](const http::Field& field) {
    return field.name == "content-type" && field.value.starts_with("text/event-stream");
  });
}

Trouble trouble_of(http::Fault fault) {
  switch (fault) {
    case http::Fault::none:
      return Trouble::none;
    case http::Fault::connect:
      return Trouble::connect;
    case http::Fault::timeout:
      return Trouble::timeout;
    case http::Fault::closed:
      return Trouble::closed;
    case http::Fault::protocol:
      return Trouble::protocol;
    case http::Fault::stopped:
      return Trouble::stopped;
  }
  return Trouble::protocol;
}

}  // namespace

std::string error_message(std::string_view body) {
  const auto json = parsed(body);
  const std::string said = json ? message_in(*json) : std::string();
  return one_line(said.empty() ? body : std::string_view(said));
}

class AnswerReader::State {
 public:
  State(bool chat, uint32_t samples)
      : chat_(chat), events_([this](std::string_view data) { return take_event(data); }) {
    answer_.samples.resize(samples);
  }

  void head(unsigned status, const std::vector<http::Field>& fields, int64_t now_ns) {
    answer_.status = status;
    answer_.head_ns = now_ns;
    answer_.streamed = status == 200 && is_event_stream(fields);
  }

  bool body(std::string_view piece, int64_t now_ns) {
    now_ns_ = now_ns;
    if (answer_.streamed) {
      if (!events_.put(piece) && events_.is_too_long()) fail("an event is longer than 16 MiB");
      return answer_.ok();
    }
    const size_t most = answer_.status == 200 ? kMostWholeBytes : kMostErrorBytes;
    body_.append(piece.substr(0, most - std::min(most, body_.size())));
    if (body_.size() < most) return true;
    if (answer_.status == 200) fail("the answer is longer than 64 MiB");
    return false;
  }

  Answer end(const http::Ending& ending, int64_t now_ns) {
    answer_.end_ns = now_ns;
    if (answer_.ok()) judge(ending);
    count();
    return std::move(answer_);
  }

 private:
  bool fail(std::string message, Trouble trouble = Trouble::protocol) {
    answer_.trouble = trouble;
    answer_.message = one_line(message);
    return false;
  }

  void judge(const http::Ending& ending) {
    const bool is_refused = answer_.status != 0 && answer_.status != 200;
    if (is_refused) {
      fail("HTTP " + std::to_string(answer_.status) + ": " + error_message(body_),
           Trouble::refused);
      return;
    }
    // Whoever has said that this was all may hang up.
    const bool is_over = answer_.streamed && done_;
    if (ending.fault != http::Fault::none && !is_over) {
      fail(ending.message, trouble_of(ending.fault));
      return;
    }
    if (!answer_.streamed) {
      take_whole();
    } else if (!done_ && !all_finished()) {
      fail("the stream ended without [DONE]", Trouble::closed);
    }
    if (answer_.ok() && !has_choices_) fail("the answer has no choices");
  }

  bool take_event(std::string_view data) {
    if (done_) return true;
    if (data == "[DONE]") {
      done_ = true;
      return true;
    }
    const auto event = parsed(data);
    if (!event || !event->is_object()) return fail("an event is no JSON object: " + shown(data));
    return take(*event);
  }

  void take_whole() {
    const auto answer = parsed(body_);
    if (!answer || !answer->is_object()) {
      fail("the answer is no JSON object: " + shown(body_));
    } else {
      take(*answer);
    }
  }

  static std::string shown(std::string_view text) { return in_quotes(text, kMostValueBytes); }

  bool take(const Json& part) {
    if (member(part, "error") != nullptr || text_member(part, "object") == "error") {
      const std::string said = message_in(part);
      return fail(said.empty() ? "an error without a message" : said, Trouble::server);
    }
    if (const Json* usage = member(part, "usage")) take_usage(*usage);
    const Json* choices = member(part, "choices");
    for (size_t i = 0; i < length_of(choices); ++i) {
      if (!take_choice((*choices)[i])) return false;
    }
    return true;
  }

  void take_usage(const Json& usage) {
    answer_.prompt_tokens = count_member(usage, "prompt_tokens");
    usage_tokens_ = count_member(usage, "completion_tokens");
    has_usage_ = member(usage, "completion_tokens") != nullptr;
    if (const Json* details = member(usage, "prompt_tokens_details")) {
      answer_.cached_tokens = count_member(*details, "cached_tokens");
    }
  }

  bool take_choice(const Json& choice) {
    const size_t index = count_member(choice, "index");
    if (index >= answer_.samples.size()) return fail("a choice that nobody asked for came");
    has_choices_ = true;
    AnswerSample& sample = answer_.samples[index];
    const std::string text = text_of(choice, chat_);
    const Counted counted = tokens_in(choice, text);
    text_bytes_ += text.size();
    tokens_ += counted.tokens;
    if (text_bytes_ > kMostTextBytes || tokens_ > kMostTokens) {
      return fail("the answer is longer than any that was asked for");
    }
    sample.text += text;
    take_ids(choice, sample);
    if (counted.tokens > 0) note_tokens(counted, sample);
    const std::string finish = text_member(choice, "finish_reason");
    if (!finish.empty()) sample.finish = one_line(finish, kMostValueBytes);
    return true;
  }

  static void take_ids(const Json& choice, AnswerSample& sample) {
    const Json* ids = member(choice, "token_ids");
    for (size_t i = 0; i < length_of(ids); ++i) {
      const Json& id = (*ids)[i];
      const bool fits = id.is_number_unsigned() && id.get<uint64_t>() <= uint64_t{INT32_MAX};
      sample.tokens.push_back(fits ? id.get<TokenId>() : kNoToken);
    }
  }

  void note_tokens(const Counted& counted, AnswerSample& sample) {
    answer_.counted_by = answer_.counted_by == CountedBy::nothing
                             ? counted.by
                             : std::min(answer_.counted_by, counted.by);
    if (!answer_.streamed) return;
    if (answer_.first_ns < 0) answer_.first_ns = now_ns_;
    sample.token_ns.insert(sample.token_ns.end(), counted.tokens, now_ns_);
  }

  // The text of an answer in one piece tells nothing about its tokens.
  void count() {
    const bool is_guess = !answer_.streamed && answer_.counted_by == CountedBy::events;
    if (is_guess) answer_.counted_by = CountedBy::nothing;
    answer_.tokens = is_guess ? 0 : static_cast<uint32_t>(tokens_);
    if (!has_usage_) return;
    answer_.tokens = usage_tokens_;
    answer_.counted_by = CountedBy::usage;
  }

  bool all_finished() const {
    return std::all_of(answer_.samples.begin(), answer_.samples.end(),
                       [](const AnswerSample& sample) { return !sample.finish.empty(); });
  }

  const bool chat_;
  EventStream events_;
  Answer answer_;
  std::string body_;
  int64_t now_ns_ = 0;
  size_t text_bytes_ = 0, tokens_ = 0;
  uint32_t usage_tokens_ = 0;
  bool has_usage_ = false, has_choices_ = false, done_ = false;
};

AnswerReader::AnswerReader(bool chat, uint32_t samples)
    : state_(std::make_unique<State>(chat, samples)) {}
AnswerReader::~AnswerReader() = default;

void AnswerReader::head(unsigned status, const std::vector<http::Field>& fields, int64_t now_ns) {
  state_->head(status, fields, now_ns);
}
bool AnswerReader::body(std::string_view piece, int64_t now_ns) {
  return state_->body(piece, now_ns);
}
Answer AnswerReader::end(const http::Ending& ending, int64_t now_ns) {
  return state_->end(ending, now_ns);
}

}  // namespace tenon::client
