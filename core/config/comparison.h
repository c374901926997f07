// A comparison: arms as named differences from a base pipeline, and the work that all of them do,
// as a TOML file describes them.
//
// Format: docs/comparing.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace tenon {

// What an arm has in place of the base's.
struct ComparisonArm {
  std::string name = {};
  std::vector<std::string> set = {};  // "scheduler.plugin=chunked"
  std::string model = {};             // empty = the base's
  std::string program = {};           // another build of this program; empty = this one

  // Keys that it differs in: those of `set`, "model.path", "program".
  std::vector<std::string> keys() const;
};

// Whose K/V a request may find in the cache: that of its own piece alone, or also that of one run
// of the same requests just before.
enum class CacheState : uint8_t { cold = 0, warm = 1 };
std::string_view cache_state_name(CacheState state);
std::optional<CacheState> parse_cache_state(std::string_view name);

// What a claim leads one to expect of a ratio arm / base.
struct ExpectedBand {
  std::string metric = {};
  double low = 0, high = 0;
};

struct Comparison {
  std::string path = {};  // of the file; empty = of a command line
  std::string title = {};
  std::string claim = {};  // what the arms are said to do, and when they must lose
  std::string loses = {};
  std::string base = {};                 // pipeline file; empty = the bundled one
  std::string base_name = "base";        // of the base arm
  std::string model = {};                // of all arms; empty = the pipeline's
  std::vector<std::string> set = {};     // of all arms
  std::vector<ComparisonArm> arms = {};  // beside the base
  bool several = false;                  // an arm may differ in more than one key
  bool same_answers = true;              // where the numerics id is the same
  std::string workload = {};             // TOML, or prompts as .jsonl or a line each
  uint32_t max_tokens = 64;              // of an answer where the workload does not say
  uint32_t in_flight = 0;                // closed loop: so many at once, arrivals do not count
  double rate = 0;                       // open loop: Poisson arrivals, requests a second
  CacheState cache = CacheState::cold;
  std::string metric = "throughput";  // that the verdict and the end are about
  double margin = 0.01;
  double confidence = 0.99;
  uint32_t pairs = 40;       // at most
  uint32_t noise_pairs = 5;  // of A against A
  int64_t budget_ns = 600'000'000'000;
  uint64_t seed = 1;
  double unlike = 0.15;     // machine states further apart make no pair
  int64_t slo_ttft_ns = 0;  // goodput: 0 = no bound
  int64_t slo_gap_ns = 0;
  std::vector<ExpectedBand> expect = {};
};

// Relative paths are taken from the file's folder. Errors name the file, the line and the key; all
// of them in one message.
Result<Comparison> read_comparison(const std::string& path);
Result<Comparison> parse_comparison(std::string_view text, const std::string& name,
                                    const std::string& folder);
// "scheduler.plugin=chunked", or "fast:scheduler.plugin=chunked", added to the arm of that name; an
// arm without a name is called after the value. Key `model` names another model.
Status add_arm(std::string_view text, Comparison& comparison);
// What no comparison can be made of: no arm, no workload, two arms of one name, more than one
// differing key without `several`, arrivals of two kinds.
Status check_comparison(const Comparison& comparison);

}  // namespace tenon
