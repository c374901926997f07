// What the tests of chat templates share.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "core/base/files/mapped_file.h"
#include "core/chat/chat_template.h"
#include "tests/support/folders.h"

namespace tenon {

// Fails the test, by an exception, when there is no value.
template <typename T>
T must(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(std::string(result.status().message()));
  return *std::move(result);
}

inline ChatTemplate chat_template(std::string_view source) {
  return must(
      ChatTemplate::parse(source, "t.jinja", {{"bos_token", "<s>"}, {"eos_token", "</s>"}}));
}

inline Result<RenderedChat> rendered(std::string_view source, const std::string& messages,
                                     const ChatOptions& options = {}) {
  return chat_template(source).render(ChatInput{.messages = messages}, options);
}

// One message of a user that says `content`.
inline std::string user_says(const std::string& content) {
  return nlohmann::json{{{"role", "user"}, {"content", content}}}.dump();
}

// What a template without any use for its messages writes.
inline std::string text_of(std::string_view source, const ChatOptions& options = {}) {
  return must(rendered(source, user_says("hi"), options)).text;
}

// Why it is not rendered, or not loaded.
inline std::string fault_of(std::string_view source, const std::string& content = "hi",
                            const ChatOptions& options = {}) {
  auto parsed = ChatTemplate::parse(source, "t.jinja");
  if (!parsed.ok()) return std::string(parsed.status().message());
  const auto result = parsed->render(ChatInput{.messages = user_says(content)}, options);
  return result.ok() ? "no fault: " + result->text : std::string(result.status().message());
}

}  // namespace tenon
