#include "core/chat/calls/json_call.h"

#include <nlohmann/json.hpp>

#include "core/jinja/json_values.h"

namespace tenon::chat {
namespace {

constexpr std::string_view kFence = "```json";

}  // namespace

std::string json_string_text(std::string_view quoted) {
  const Result<nlohmann::ordered_json> value = parse_json_text(quoted);
  return value.ok() && value->is_string() ? value->get<std::string>() : std::string();
}

ReadStatus JsonCallReader::push(char c, AnswerOutput& out) {
  if (!started_) {
    if (c != '{' && c != '[') return before_json(c) ? ReadStatus::more : ReadStatus::failed;
    if (!fence_.empty() && fence_ != kFence) return ReadStatus::failed;
    started_ = true;
    call_depth_ = c == '{' ? 1 : 2;
  }
  const JsonStream::Status status = json_.push(c);
  if (status == JsonStream::Status::bad) return ReadStatus::failed;
  if (!on_token(json_.token(), c, out)) return ReadStatus::failed;
  return status == JsonStream::Status::done ? ReadStatus::done : ReadStatus::more;
}

ReadStatus JsonCallReader::special(std::string_view marker, AnswerOutput& out) {
  if (!json_.in_string()) return ReadStatus::failed;
  ReadStatus status = ReadStatus::more;
  for (size_t at = 0; at < marker.size() && status == ReadStatus::more; ++at) {
    status = push(marker[at], out);
  }
  return status;
}

bool JsonCallReader::before_json(char c) {
  if (is_space(c)) return fence_.empty() || fence_ == kFence;
  fence_ += c;
  return style_.fenced && kFence.starts_with(fence_);
}

void JsonCallReader::begin_object() {
  field_ = Field::none;
  in_arguments_ = has_arguments_ = begun_ = nested_ = false;
  name_.clear();
  id_.clear();
  arguments_.clear();
}

bool JsonCallReader::on_token(JsonStream::Token token, char c, AnswerOutput& out) {
  using Read = JsonStream::Token;
  const bool ends_arguments =
      in_arguments_ && token == Read::end_object && json_.depth() == call_depth_;
  if (in_arguments_) {
    if (begun_) {
      out.arguments({&c, 1});
    } else {
      arguments_ += c;
    }
    if (ends_arguments) {
      in_arguments_ = false;
      has_arguments_ = true;
      field_ = Field::none;
      if (begun_) out.arguments_are_whole();
    }
    return true;
  }
  if (json_.depth() == call_depth_ && (json_.in_string() || token == Read::end_string)) {
    string_ = token == Read::begin_string ? std::string(1, c) : std::move(string_) + c;
    return token != Read::end_string || on_string(out);
  }
  if (token == Read::end_object) return on_end_object(out);
  if (token == Read::none || token == Read::end_list) return true;
  const bool fits = on_begin(token, c);
  if (in_arguments_) {
    arguments_ += c;
    return fits && begin_if_named(out);
  }
  return fits;
}

// Something begins that is no string of the call itself.
bool JsonCallReader::on_begin(JsonStream::Token token, char c) {
  const bool is_object = token == JsonStream::Token::begin_object;
  const bool is_list = token == JsonStream::Token::begin_list;
  const size_t around = json_.depth() - (is_object || is_list ? 1u : 0u);
  if (around > call_depth_) return true;  // within a value that nobody wants
  if (around == 0 && call_depth_ == 2) return is_list;
  if (around < call_depth_) {
    begin_object();
    return is_object;
  }
  if (field_ == Field::function && is_object && !nested_) {
    nested_ = true;
    ++call_depth_;
    field_ = Field::none;
  } else if (field_ == Field::arguments && is_object && !has_arguments_) {
    in_arguments_ = true;
  } else {
    // A name is a text; arguments may be missing.
    return field_ != Field::name && (field_ != Field::arguments || has_arguments_ || c == 'n');
  }
  return true;
}

// A key, or a text after one.
bool JsonCallReader::on_string(AnswerOutput& out) {
  const std::string text = json_string_text(string_);
  if (json_.in_key()) {
    field_ = text == "name" || text == "tool_name"         ? Field::name
             : text == "arguments" || text == "parameters" ? Field::arguments
             : text == "id" || text == "tool_call_id"      ? Field::id
             : text == "function"                          ? Field::function
                                                           : Field::none;
    return true;
  }
  switch (std::exchange(field_, Field::none)) {
    case Field::name:
    case Field::function:
      if (!name_.empty()) return true;
      name_ = text;
      return !name_.empty() && known_name() && begin_if_named(out);
    case Field::id:
      id_ = text;
      return true;
    case Field::arguments: {
      // An object, written into a text.
      if (has_arguments_) return true;
      const Result<nlohmann::ordered_json> value = parse_json_text(text);
      if (!value.ok() || !value->is_object()) return false;
      arguments_ = text;
      has_arguments_ = true;
      return begin_if_named(out);
    }
    case Field::none:
      return true;
  }
  return true;
}

bool JsonCallReader::known_name() const {
  return style_.known == nullptr || style_.known->knows(name_);
}

// Delivers what waits for the name.
bool JsonCallReader::begin_if_named(AnswerOutput& out) {
  if (begun_ || name_.empty() || (!in_arguments_ && !has_arguments_)) return true;
  out.begin_call(name_, id_);
  out.arguments(arguments_);
  if (has_arguments_) out.arguments_are_whole();
  begun_ = true;
  return true;
}

bool JsonCallReader::on_end_object(AnswerOutput& out) {
  if (json_.depth() != call_depth_ - 1) return true;
  if (nested_) {
    nested_ = false;
    --call_depth_;
    return true;
  }
  if (name_.empty()) return false;
  if (!begun_) {
    out.begin_call(name_, id_);
    out.arguments("{}");
  }
  out.end_call();
  return true;
}

std::unique_ptr<CallReader> read_json_call(const JsonCallStyle& style) {
  return std::make_unique<JsonCallReader>(style);
}

}  // namespace tenon::chat
