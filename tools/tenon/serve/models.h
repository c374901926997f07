// Which models `tenon serve` offers, and how each of them is loaded.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/server/models/model_pool.h"
#include "tools/tenon/shell/pipeline_flags.h"

namespace tenon {

struct ModelFlags {
  PipelineFlags pipeline;           // of all models, as far as they do not say otherwise
  std::vector<std::string> listed;  // "PIPELINE", "MODEL", "NAME=…"
  std::string file;                 // a list of models (core/config/models_file.h); empty = none
  bool on_demand = false;           // those that are listed are loaded when they are asked for
  std::string idle_unload;          // a time, or "never"; empty = as the file says
  std::string memory;               // a size; likewise
  std::optional<uint32_t> max_loaded;
  std::string
      adapters;  // a folder below which requests may name adapters; empty = as the file says
  std::optional<uint32_t> max_adapters;
  std::string chat_template;
  bool random_seeds = false;
};

struct ModelsToServe {
  std::vector<server::ModelSource> sources;  // in their order; those that are kept are loaded
  server::ModelPoolOptions options;

  std::string names() const;  // "a, b"
};

// Loads what is kept, and tells people what each model takes of memory, before it is loaded. A
// model that is loaded on demand and cannot be measured now is warned of, and tried again later.
// Errors: the lists, the pipelines' files, and what is to be loaded at once and cannot be.
Result<ModelsToServe> models_to_serve(const ModelFlags& flags);

}  // namespace tenon
