// An arm of a comparison while it is measured: it answers a workload's requests, again and again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/compare/comparison.h"
#include "core/report/statistics/measured.h"

namespace tenon::compare {

// One replay of the workload.
struct ArmOrder {
  bool digests = false;
  uint64_t salt = 0;  // replays of other salts share no K/V
  bool warm = false;
  bool keep = false;        // in one engine with all others that are kept
  bool count_waits = true;  // for a processor that other programs have
  std::string record = {};  // a file for the scheduler's views; empty = none
  const std::vector<int64_t>* arrivals_ns = nullptr;  // null: those of load()
  uint32_t turn_steps = 0;  // of the engine, after which others have their turn; 0 = none do
};

// What came of a turn.
struct ArmTurn {
  enum class End : uint8_t { waits, done, given_up };
  End end = End::waits;
  MeasuredPiece piece = {};  // once it is done
};

// Used by one thread at a time. Every error names the arm.
class Arm {
 public:
  virtual ~Arm() = default;

  // What it is; of `differences` and `fidelity` it knows nothing.
  virtual const MeasuredArm& described() const = 0;
  virtual std::string model_path() const = 0;  // "" of a server
  // Reads the workload; gives back when its requests arrive, in nanoseconds after the start:
  // `arrivals_ns` where that is not null, one a request.
  virtual Result<std::vector<int64_t>> load(const std::string& workload,
                                            const Comparison& comparison,
                                            const std::vector<int64_t>* arrivals_ns) = 0;
  // The first turn of a replay, which is all of it where the order has no `turn_steps`, or where
  // the arm takes no turns: a server. One that waits goes on before it is asked anything else.
  virtual Result<ArmTurn> begin(const ArmOrder& order) = 0;
  virtual Result<ArmTurn> go_on() = 0;
  // Of the base: writes its predictions of the comparison's text into a file; gives back what
  // judge() of another arm takes. "" where it was given up.
  virtual Result<std::string> predict(const Comparison& comparison, const std::string& file) = 0;
  virtual Result<Fidelity> judge(const Comparison& comparison, const std::string& file,
                                 const std::string& base_ids) = 0;
  // Error: files of the model are not what they were at the start.
  virtual Status check_model() const = 0;
};

// The base of a comparison as an arm: no difference.
ComparisonArm base_arm(const Comparison& comparison);

// "scheduler.plugin: static → chunked", for each key in which two resolved pipelines differ.
std::vector<std::string> differences_between(const std::string& base_toml,
                                             const std::string& arm_toml);
// One value of a resolved pipeline, as TOML writes it; empty where it has none, or is no TOML.
std::string resolved_value(const std::string& toml, const std::string& key);

}  // namespace tenon::compare
