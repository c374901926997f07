// Names of models on the Hugging Face hub, as people write them where a path could stand.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tenon::hub {

//   Qwen/Qwen3-0.6B                          the model, as its branch "main" is
//   Qwen/Qwen3-0.6B@v1.0                     a branch, a tag or a commit
//   Qwen/Qwen3-0.6B-GGUF/Qwen3-Q8_0.gguf     one of its GGUF files
struct ModelName {
  std::string repository;         // "Qwen/Qwen3-0.6B"; of old models one word, "gpt2"
  std::string revision = "main";  // may have slashes: "refs/pr/1"
  std::string file;               // empty: whatever the model consists of

  std::string text() const;  // as it is written, without "@main"
};

// Null for what cannot be a name: the hub's rules, and a file must end in ".gguf". A text that is a
// name may be a path too; whoever asks looks for the path first. [any thread]
std::optional<ModelName> parse_model_name(std::string_view text);

}  // namespace tenon::hub
