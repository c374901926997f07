// What a comparison has measured: arms, pieces, requests. Plain values, as the result folder holds
// them (docs/comparing.md); everything that is said about them is computed from these alone, so
// that a folder can be reported again.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

// At most 16 characters, such as a hash in hexadecimal digits, with no memory besides, since every
// request has some. A hash stands in place of what is longer.
class ShortText {
 public:
  ShortText() = default;
  ShortText(std::string_view text);   // NOLINT(google-explicit-constructor)
  ShortText(const std::string& text)  // NOLINT(google-explicit-constructor)
      : ShortText(std::string_view(text)) {}
  ShortText(const char* text)  // NOLINT(google-explicit-constructor)
      : ShortText(std::string_view(text)) {}

  bool empty() const { return letters_[0] == 0; }
  void clear() { letters_ = {}; }
  std::string text() const;

  friend bool operator==(const ShortText&, const ShortText&) = default;

 private:
  std::array<char, 16> letters_ = {};  // what is left is 0
};

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
  ShortText answer = {};  // hash of its tokens; empty where a server does not give them
  ShortText text = {};    // hash of its text
  ShortText digest = {};  // of its logits; empty where none were computed

  friend bool operator==(const RequestRow&, const RequestRow&) = default;
};
struct RequestsSummary;  // requests_summary.h

// The rates of the machine just before or after a piece.
struct MachineState {
  double read_gbps = 0;
  double fma_gflops = 0;
  double bf16_gflops = 0, int8_gops = 0;  // 0: this processor has none
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
  measured = 2,
  probe = 3  // of a search for a rate
};
std::string_view piece_kind_name(PieceKind kind);

// A few steps of a replay, after which another arm had its turn.
struct PieceTurn {
  double seconds = 0;
  double cpu_seconds = 0;  // processor time of all threads
};

// One replay of the workload by one arm.
struct MeasuredPiece {
  PieceKind kind = PieceKind::measured;
  std::string arm = {};
  uint32_t block = 0;    // pieces of one block and kind make pairs
  bool again = false;    // noise: of the second process of the base
  uint32_t process = 0;  // how often the arms had been started anew before it
  double rate = 0;       // probe: requests that arrived a second
  MachineState before = {}, after = {};
  double processor_share = 1;  // that the arm was given while it worked
  double seconds = 0;          // turns of others left out, and `waited_seconds`
  double waited_seconds = 0;   // for a processor that other programs had
  uint64_t generated_tokens = 0;
  std::vector<PieceTurn> turns = {};            // none where the piece ran without a break
  Quantiles gap_ms = {};                        // over all gaps between tokens
  PartSeconds prefill{}, decode{};              // by phase of the step
  std::map<std::string, double> counters = {};  // "steps", "rows", "kv_cache.hits"
  std::vector<TimelinePoint> timeline = {};
  std::vector<std::vector<TimelinePoint>> machines = {};  // of a cluster, each machine's
  std::vector<RequestRow> requests = {};
  // In place of very many rows, which are in the folder alone; null where `requests` has them.
  std::shared_ptr<const RequestsSummary> summary = {};
};

// What an arm of other numerics predicts of a text, held against what the base predicts.
struct Fidelity {
  std::string text = {};   // its file's name
  std::string fault = {};  // why it was not judged; the rest says nothing then
  uint64_t tokens = 0;     // predicted; 0 = it was not judged
  double same_top = 0;     // share of tokens whose likeliest next one is the same
  double base_perplexity = 0, perplexity = 0;
  double kl_p99_nats = 0;  // KL(base || arm) of a token's distribution, 99 % quantile
  // Means of each window of the text, which is computed from its own first token.
  std::vector<double> window_kl_nats = {};
  std::vector<double> window_nats_more = {};  // -ln p of the arm less that of the base
};

struct MeasuredArm {
  std::string name = {};
  std::vector<std::string> differences = {};  // "scheduler.plugin: continuous → chunked", resolved
  std::string numerics = {};
  std::string hash = {};  // of the configuration
  std::string resolved = {};
  std::map<std::string, std::string> plugins = {};  // interface → id
  Fidelity fidelity = {};
  bool leaves_waits_out = false;  // MeasuredPiece::waited_seconds, where it is told to
  bool is_server = false;  // asked over HTTP: answers are texts, and nothing is known of its parts
  // "tale, 6 layers of 64", "weights bf16; K/V bf16", in words; empty where nothing is known.
  std::string model = {}, formats = {};
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
  double slo_share = 0.9;   // of requests that keep them, at a rate that keeps them
  uint32_t probes = 0;      // of a search for that rate; 0 = none is searched
  std::string others = {};  // what other programs used of the machine, in words
  std::string workload_hash = {}, machine = {}, command = {}, version = {},
              ended = {};  // ended: why it ended
  std::string date = {};   // when it began, "2026-11-29 07:15 UTC"
  uint64_t seed = 0;
  // The doubt (1 - confidence) that is spent on looks while it goes on; the rest is kept for the
  // one at the planned end.
  double looks = 1;
  bool at_end = false;   // it went on until its budget, or its pairs, were spent
  uint32_t restart = 0;  // pairs after which all arms were started anew; 0 = never
  // In place of that: they were started anew as often as the budget allowed.
  bool restart_affordable = false;
  // On the wall: what pairs and the starts between them took, and what one start of all arms takes;
  // 0: not known.
  double pairs_seconds = 0, start_seconds = 0;
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
