// An arm of a comparison: a process that stays loaded between its turns
// (tools/tenon/compare/arm_command.cc).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "core/config/comparison.h"
#include "core/report/statistics/measured.h"
#include "tools/tenon/compare/json.h"
#include "tools/tenon/process/child_process.h"

namespace tenon {

// The base of a comparison as an arm: no difference.
ComparisonArm base_arm(const Comparison& comparison);

class RunningArm {
 public:
  // Loads weights; takes as long as that takes. Null once `go_on` says no, as below.
  static Result<std::unique_ptr<RunningArm>> start(const Comparison& comparison,
                                                   const ComparisonArm& arm,
                                                   const std::vector<std::string>& plugin_path,
                                                   std::function<bool()> go_on);

  const MeasuredArm& described() const { return described_; }
  const std::string& model_path() const { return model_path_; }  // "" of a server
  // Gives back when requests arrive.
  Result<std::vector<int64_t>> load(const std::string& workload, const Comparison& comparison,
                                    const std::vector<int64_t>* arrivals_ns);
  // One replay. Null where `go_on` ended it.
  struct Order {
    bool digests = false;
    uint64_t salt = 0;
    bool warm = false;
    bool keep = false;        // in one engine with all others that are kept
    std::string record = {};  // a file for the scheduler's views
    const std::vector<int64_t>* arrivals_ns = nullptr;  // null: those of load()
  };
  Result<std::optional<MeasuredPiece>> run(const Order& order);
  // Of the base: its predictions of a text into a file; gives back what judge() of another arm
  // takes.
  // "" where `go_on` ended it.
  Result<std::string> predict(const Comparison& comparison, const std::string& file);
  Result<Fidelity> judge(const Comparison& comparison, const std::string& file,
                         const std::string& base_ids);
  // Error: files of the model are not what they were at the start.
  Status check_model() const;

 private:
  RunningArm(ChildProcess process, std::function<bool()> go_on)
      : process_(std::move(process)), go_on_(std::move(go_on)) {}
  Result<std::optional<CompareJson>> answer();
  Result<std::optional<CompareJson>> ask(const CompareJson& order);
  // A member of what the arm answered.
  template <typename T>
  Status get_member(const CompareJson& json, const char* name, T& out) const;
  Status failure(const Status& status) const;

  ChildProcess process_;
  std::function<bool()> go_on_;
  MeasuredArm described_;
  std::string model_path_, model_state_;
};

// "scheduler.plugin: static → chunked", for each key in which two resolved pipelines differ.
std::vector<std::string> differences_between(const std::string& base_toml,
                                             const std::string& arm_toml);

}  // namespace tenon
