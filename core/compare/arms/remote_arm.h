// An arm that is a process of its own, which stays loaded between its turns.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/compare/arms/arm.h"
#include "core/compare/arms/orders.h"

namespace tenon::compare {

class RemoteArm final : public Arm {
 public:
  // Waits until the other end has loaded; takes as long as that takes. `go_on` is asked while any
  // answer is waited for. Errors name the arm; a wait that was given up is one.
  static Result<std::unique_ptr<Arm>> start(std::unique_ptr<LineChannel> channel,
                                            const std::string& name, std::function<bool()> go_on);

  const MeasuredArm& described() const override { return described_; }
  std::string model_path() const override { return model_path_; }
  Result<std::vector<int64_t>> load(const std::string& workload, const Comparison& comparison,
                                    const std::vector<int64_t>* arrivals_ns) override;
  Result<ArmTurn> begin(const ArmOrder& order) override;
  Result<ArmTurn> go_on() override;
  Result<std::string> predict(const Comparison& comparison, const std::string& file) override;
  Result<Fidelity> judge(const Comparison& comparison, const std::string& file,
                         const std::string& base_ids) override;
  Status check_model() const override;

 private:
  RemoteArm(std::unique_ptr<LineChannel> channel, std::function<bool()> go_on)
      : channel_(std::move(channel)), go_on_(std::move(go_on)) {}
  Result<std::optional<Json>> answer();
  Result<std::optional<Json>> ask(const Json& order);
  Result<ArmTurn> turn(const Json& order);
  Status take_rows(const Json& from, const char* name, std::vector<RequestRow>& out) const;
  // A member of what the arm answered.
  template <typename T>
  Status get_member(const Json& json, const char* name, T& out) const;
  Status failure(const Status& status) const;
  Status given_up() const;

  std::unique_ptr<LineChannel> channel_;
  std::function<bool()> go_on_;
  MeasuredArm described_;
  std::string model_path_, model_state_;
};

}  // namespace tenon::compare
