// What the hub says about a model, and which of its files are wanted.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace tenon::hub {

struct RemoteFile {
  std::string path;  // "model.safetensors", "1_Pooling/config.json"
  uint64_t bytes = 0;
  std::string digest;  // names its bytes (digest.h), and its blob in the cache
};

// {"sha": "<commit>", …} Error: invalid_argument.
Result<std::string> read_commit(std::string_view json);
// One page of a tree: its files are appended. Errors: invalid_argument, also for a path that leads
// out of the model's folder or a digest that is none.
Status read_tree(std::string_view json, std::vector<RemoteFile>& files);

// What is brought without anybody naming files: of a folder of safetensors, these, and all small
// files that describe a model (config, tokenizer, templates); else the only GGUF file, all parts of
// it. Errors: not_found, where there are neither; invalid_argument, where there are several GGUF
// files, with their names and sizes.
Result<std::vector<RemoteFile>> files_of_model(std::span<const RemoteFile> all,
                                               const std::string& repository);
// The file `name`, and where its name is a part's, all parts of that model. Error: not_found.
Result<std::vector<RemoteFile>> files_of_gguf(std::span<const RemoteFile> all,
                                              const std::string& name,
                                              const std::string& repository);
// Those whose path matches one of `patterns`: "*.gguf"; a star takes slashes too. Error: not_found
// for a pattern that none matches.
Result<std::vector<RemoteFile>> files_that_match(std::span<const RemoteFile> all,
                                                 std::span<const std::string> patterns,
                                                 const std::string& repository);

}  // namespace tenon::hub
