// What a comparison has measured: arms, pieces, requests. Plain values, as the result folder holds
// them (docs/comparing.md); everything that is said about them is computed from these alone, so
// that a folder can be reported again.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// One sample of a request.
struct RequestRow {
  uint32_t index = 0, sample = 0;
  uint32_t prompt_tokens = 0, tokens = 0, reused_tokens = 0, preemptions = 0;
  double arrival_ms = 0;
  double ttft_ms = -1;  // -1 = no token came
  double tpot_ms = 0;   // mean gap after the first token; 0 for one token
  double longest_gap_ms = 0;
  double latency_ms = 0;
  std::string finish = {};
  std::string answer = {};  // hash of its tokens
  std::string digest = {};  // of its logits; empty where none were computed
};

// What the machine could do just before or behind a piece.
struct MachineState {
  double read_gbps = 0;
  double fma_gflops = 0;
  double processor_share = 1;
};
// How far apart two states are: the largest |log ratio| of any of their figures.
double distance_of(const MachineState& a, const MachineState& b);

// Seconds spent in each part of a step.
inline constexpr std::array<std::string_view, 6> kPartNames = {"executor", "scheduler", "kv_cache",
                                                               "sampler",  "drafter",   "engine"};
using PartSeconds = std::array<double, kPartNames.size()>;

struct Quantiles {
  double mean = 0, p50 = 0, p90 = 0, p99 = 0, most = 0;
  uint64_t count = 0;
};
Quantiles quantiles_of(const std::vector<double>& values);

struct TimelinePoint {
  double ms = 0;  // since the piece began
  uint32_t running = 0, waiting = 0, rows = 0;
  uint64_t kv_tokens = 0;
};

enum class PieceKind : uint8_t {
  warm_up = 0,  // not counted; has digests
  noise = 1,    // A against A
  measured = 2
};
std::string_view piece_kind_name(PieceKind kind);

// One replay of the workload by one arm.
struct MeasuredPiece {
  PieceKind kind = PieceKind::measured;
  std::string arm = {};
  uint32_t block = 0;  // pieces of one block and kind make pairs
  bool again = false;  // noise: of the second process of the base
  MachineState before = {}, after = {};
  double processor_share = 1;  // that the arm was given while it worked
  double seconds = 0;
  uint64_t generated_tokens = 0;
  Quantiles gap_ms = {};                        // over all gaps between tokens
  PartSeconds prefill{}, decode{};              // by phase of the step
  std::map<std::string, double> counters = {};  // "steps", "rows", "kv_cache.hits"
  std::vector<TimelinePoint> timeline = {};
  std::vector<RequestRow> requests = {};
};

struct MeasuredArm {
  std::string name = {};
  std::vector<std::string> differences = {};  // "scheduler.plugin: continuous → chunked", resolved
  std::string numerics = {};
  std::string hash = {};  // of the configuration
  std::string resolved = {};
  std::map<std::string, std::string> plugins = {};  // interface → id
};

struct MeasuredPlan {
  std::string title = {}, claim = {}, loses = {};
  std::string primary = "throughput";
  std::string work = {};   // in words: "32 requests, closed loop, 8 in flight"
  std::string cache = {};  // "cold"
  bool open_loop = false;
  bool same_answers = true;
  double margin = 0.01, confidence = 0.99, unlike = 0.15;
  double slo_ttft_ms = 0, slo_gap_ms = 0;
  std::string workload_hash = {}, machine = {}, command = {}, version = {},
              ended = {};  // ended: why it ended
  uint64_t seed = 0;
  struct Band {
    std::string metric = {};
    double low = 0, high = 0;
  };
  std::vector<Band> expect = {};
};

struct MeasuredComparison {
  MeasuredPlan plan;
  std::vector<MeasuredArm> arms = {};      // the base first
  std::vector<MeasuredPiece> pieces = {};  // in the order they ran
};

}  // namespace tenon
