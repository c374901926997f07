// What the tokenizer tests share: small tokenizers made by tests/golden/make_tokenizer_goldens.py.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/base/files/mapped_file.h"
#include "core/tokenizer/tokenizer.h"
#include "tests/support/folders.h"

namespace tenon {

// Fails the test, by an exception, when there is no value.
template <typename T>
T must(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(std::string(result.status().message()));
  return *std::move(result);
}

inline std::string data_path(const std::string& file) {
  return source_folder() + "/tests/unit/tokenizer/data/" + file;
}

inline std::string read_file(const std::string& path) {
  return must(read_text_file(path));
}

inline Result<std::unique_ptr<Tokenizer>> read_tokenizer(const std::string& content,
                                                         const std::string& name) {
  if (name.ends_with(".json")) return Tokenizer::from_json(content, name);
  return Tokenizer::from_sentencepiece(std::as_bytes(std::span(content)), name);
}

// The fixture in `file`, "llama3.json" or "spm_llama.model".
inline std::unique_ptr<Tokenizer> fixture(const std::string& file) {
  return must(read_tokenizer(read_file(data_path(file)), file));
}

inline std::vector<std::string> fixture_files() {
  return {"deepseek.json",   "falcon.json",     "gemma.json",       "gpt2.json",    "llama2.json",
          "llama3.json",     "mistral.json",    "metaspace.json",   "neox.json",    "o200k.json",
          "phi3.json",       "plain.json",      "qwen2.json",       "roberta.json", "smollm.json",
          "spm_llama.model", "spm_rules.model", "spm_surface.model"};
}

// A tokenizer.json to change: eight letters, two merges, nothing else.
inline nlohmann::json tiny_json() {
  return nlohmann::json::parse(R"({
    "version": "1.0", "added_tokens": [],
    "model": {"type": "BPE",
              "vocab": {"a": 0, "b": 1, "c": 2, "d": 3, " ": 4, "ab": 5, "abc": 6, "?": 7},
              "merges": ["a b", "ab c"]},
    "decoder": {"type": "Fuse"}})");
}

inline std::unique_ptr<Tokenizer> from_json(const nlohmann::json& document) {
  return must(Tokenizer::from_json(document.dump(), "t.json"));
}

// The message with which a tokenizer.json is refused; empty when it is not.
inline std::string refusal(const nlohmann::json& document) {
  const auto tokenizer = Tokenizer::from_json(document.dump(), "t.json");
  return std::string(tokenizer.status().message());
}

inline std::vector<TokenId> ids_of(const Tokenizer& tokenizer, std::string_view text,
                                   const EncodeOptions& options = {}) {
  return must(tokenizer.encode(text, options));
}

inline std::string streamed(const Tokenizer& tokenizer, const std::vector<TokenId>& ids,
                            bool skip_special) {
  StreamingDetokenizer stream(tokenizer, skip_special);
  std::string text;
  for (const TokenId id : ids) text += stream.push(id);
  return text + stream.finish();
}

}  // namespace tenon
