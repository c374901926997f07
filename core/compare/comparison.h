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
#include "core/compare/cluster/cluster.h"
#include "core/workload/published_trace.h"

namespace tenon::compare {

// Machines of a simulated arm, and how requests are routed to them (core/routing/router.h).
struct ClusterOf {
  uint32_t machines = 1;
  std::string routing = "round_robin";
  uint32_t prefill = 0;             // ClusterPlan::prefill
  std::string decode_machine = {};  // of those that go on with answers; empty: as all others
  std::vector<MachineFailure> failures = {};

  friend bool operator==(const ClusterOf&, const ClusterOf&) = default;
  // "4 machines, prefix"
  std::string text() const;
  ClusterPlan plan() const;
};
// "2@30s/10s": the second machine fails after 30 seconds, for 10. Error: invalid_argument.
Result<MachineFailure> parse_failure(std::string_view text);
std::string failure_text(const MachineFailure& failure);

// What an arm has in place of the base's.
struct ComparisonArm {
  std::string name = {};
  std::vector<std::string> set = {};  // "scheduler.plugin=chunked"
  std::string model = {};             // empty = the base's; of a server: as it calls it
  std::string weights = {};           // "q8_0": its matrices in another type; empty = as they are
  std::string program = {};           // another build of this program; empty = this one
  std::string url = {};               // a running server with OpenAI's API
  bool is_named = true;               // else its name follows from its difference
  // Of a simulation: what "cluster.…" of both lists of settings says, once it is taken out of them.
  ClusterOf cluster = {};

  // Keys that it differs in: those of `set`, "model.path", "weights", "program".
  std::vector<std::string> keys() const;
};

// Whose K/V a request may find in the cache: that of its own piece alone, or also that of one run
// of the same requests just before, or of all before it, once its hit rate has settled.
enum class CacheState : uint8_t { cold = 0, warm = 1, steady = 2 };
std::string_view cache_state_name(CacheState state);
std::optional<CacheState> parse_cache_state(std::string_view name);

// What a claim leads one to expect of a ratio arm / base.
struct ExpectedBand {
  std::string metric = {};
  double low = 0, high = 0;
};

constexpr uint32_t kFewestPairs = 5;  // that say something, and before an early end

struct Comparison {
  std::string path = {};  // of the file; empty = of a command line
  std::string title = {};
  std::string claim = {};  // what the arms are said to do, and when they must lose
  std::string loses = {};
  std::string base = {};                 // pipeline file; empty = the bundled one
  std::string base_name = "base";        // of the base arm
  std::string url = {};                  // a running server as the base; `model` is its name there
  std::string authorities = {};          // whose certificates arms of https:// show, a PEM file
  std::string model = {};                // of all arms; empty = the pipeline's
  std::vector<std::string> set = {};     // of all arms
  std::vector<ComparisonArm> arms = {};  // in addition to the base
  bool several = false;                  // an arm may differ in more than one key
  bool same_answers = true;              // where the numerics id is the same, and of servers
  std::string machine = {};              // that `tenon simulate` simulates: a name or a file
  ClusterOf cluster = {};                // of the base, as ComparisonArm::cluster
  std::string workload = {};             // TOML, a trace, or prompts as .jsonl or a line each
  TraceCut trace = {};                   // of a trace
  uint32_t max_tokens = 64;              // of an answer where the workload does not say
  uint32_t in_flight = 0;                // closed loop: so many at once, arrivals do not count
  double rate = 0;                       // open loop: random arrivals, requests a second
  double burstiness = 1;                 // of them: the shape of a gamma distribution, 1 = Poisson
  double scale = 1;                      // the workload's own arrivals, so many times as fast
  CacheState cache = CacheState::cold;
  std::string text = {};              // that arms of other numerics are judged by; empty = none
  uint32_t text_tokens = 1024;        // of it, from its beginning
  uint32_t text_window = 256;         // tokens that are computed from their own first one
  std::string metric = "throughput";  // that the verdict and the end are about
  double margin = 0.01;
  double confidence = 0.99;
  uint32_t pairs = 10000;    // at most
  uint32_t noise_pairs = 5;  // of A against A
  // Pairs after which all arms are started anew; 0 = never; none: as often as there is time.
  std::optional<uint32_t> restart = {};
  int64_t budget_ns = 600'000'000'000;
  // Ends sooner, at this, if it has the fewest pairs by then (kFewestPairs); 0 = never.
  int64_t share_ns = 0;
  uint64_t seed = 1;
  // Whether times have what an arm waits for a processor that other programs have.
  bool count_waits = false;
  double unlike = 0.15;     // machine states further apart make no pair
  int64_t slo_ttft_ns = 0;  // goodput: 0 = no bound
  int64_t slo_gap_ns = 0;
  double slo_share = 0.9;  // of requests that must keep them, where a rate is searched
  uint32_t probes = 0;     // of a search for the highest such rate; 0 = none is searched
  std::vector<ExpectedBand> expect = {};
};

// Relative paths are taken from the file's folder. Errors name the file, the line and the key; all
// of them in one message.
Result<Comparison> read_comparison(const std::string& path);
Result<Comparison> parse_comparison(std::string_view text, const std::string& name,
                                    const std::string& folder);
// "scheduler.plugin=chunked", or "fast:scheduler.plugin=chunked", added to the arm of that name.
// What has no name is an arm of its own, called after the value, or after key and value where
// another arm has that value. Key `model` names another model, `weights` another type of the same
// model's matrices.
Status add_arm(std::string_view text, Comparison& comparison);
// "ttft=500ms,gap=50ms,share=0.99,probes=8": the search of the highest rate that keeps the bounds.
Status set_goodput(std::string_view text, Comparison& comparison);
// What makes no sense of it whatever the machines are: no machine left for answers, a failure of
// one that is not there. Error: invalid_argument.
Status check_cluster(const ClusterOf& cluster);
// Takes settings that begin with "cluster." out of `set` and into `out`. Error: invalid_argument, a
// key or a value that is none.
Status take_cluster(std::vector<std::string>& set, ClusterOf& out);
// What no comparison can be made of: no arm, no workload, two arms of one name, more than one
// differing key without `several`, arrivals of two kinds.
Status check_comparison(const Comparison& comparison);

}  // namespace tenon::compare
