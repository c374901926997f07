// What a model's own files recommend for answers: generation_config.json of a folder, the keys
// general.sampling.* of a GGUF file (docs/formats/generation.md, "What a model recommends").
#pragma once

#include <tenon/sampler.h>
#include <tenon/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/files/gguf_metadata.h"
#include "core/request/sampling_keys.h"

namespace tenon {

// Absent members, and empty lists, were not given.
struct GenerationDefaults {
  SamplingValues sampling = {};  // by sampling_keys()
  std::optional<uint32_t> max_tokens, min_tokens;
  std::optional<double> length_penalty;       // of beams
  std::optional<std::string> early_stopping;  // of beams: "false", "true" or "never"
  std::vector<SamplingStage> order;
  std::vector<std::vector<TokenId>> bad_words;  // never generated, each as a whole
  std::vector<std::string> stop;
  std::vector<TokenId> eos;

  std::string source;                                       // the file, for people
  std::map<std::string, std::string, std::less<>> said_by;  // "min_p" → the key that said it
  std::vector<std::string> unused;     // keys with a value that nothing follows
  std::optional<uint32_t> max_length;  // of prompt and answer together

  std::optional<double> value(std::string_view name) const {
    return sampling[*find_sampling_key(name)];
  }
  void set(std::string_view name, double value, std::string_view key);
  // Takes a recommendation back, "min_p" or "bad_words"; its key becomes one of `unused` where it
  // asked for anything.
  void drop(std::string_view name);
};

// `name` (a path) leads every message. A value out of range is refused by its key.
Result<GenerationDefaults> parse_generation_config(std::string_view json, std::string_view name);
Result<GenerationDefaults> gguf_generation_defaults(const GgufFile& file, std::string_view name);

// The keys general.sampling.* for what they can say; whether that is all.
bool add_gguf_sampling(const GenerationDefaults& defaults, GgufMetadata& out);
// generation_config.json for a folder: `json` (may be empty), and over it what is recommended.
std::string generation_config_text(const GenerationDefaults& defaults, const std::string& json);

}  // namespace tenon
