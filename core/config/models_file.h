// The models of a server that has several of them, as a TOML file lists them.
//
// Format: docs/formats/models-toml.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/origin.h"
#include "core/base/result.h"
#include "core/plugin/settings.h"

namespace tenon {

// [[server.models]]
struct ListedModel {
  std::string name;
  Origin origin;
  std::string pipeline;           // absolute path of a pipeline file; empty = the bundled one
  std::vector<Setting> settings;  // keys of the pipeline that the entry sets; paths are absolute
  std::string chat_template;      // absolute path; empty = the model's own
  std::optional<int64_t> idle_unload_ns;  // null = as the server; 0 = never
  bool keep = false;                      // loaded at start, and never unloaded
};

// [server]; null or 0 where nobody said.
struct ModelsFile {
  std::optional<uint64_t> memory_bytes;  // of all models together
  uint32_t max_loaded = 0;               // models in memory at a time; 0 = as many as fit
  std::optional<int64_t> idle_unload_ns;
  std::optional<int64_t> load_wait_ns;  // how long a request may wait for memory
  std::string adapters;  // absolute path, below which requests may name adapters; empty = nowhere
  uint32_t max_adapters = 8;        // that requests may have loaded at a time, of each model
  std::vector<ListedModel> models;  // in the order of the file, at least one
};

// Errors: every fault at once, a line each, led by file:line:column. What the entries set of their
// pipelines is checked when those are read.
Result<ModelsFile> load_models_file(const std::string& path);
// Relative paths are taken from `folder`, messages are led by `name`.
Result<ModelsFile> parse_models_file(std::string_view text, const std::string& name,
                                     const std::string& folder);

}  // namespace tenon
