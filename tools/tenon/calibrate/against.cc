#include "tools/tenon/calibrate/against.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "core/base/files/new_file.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/sim/machine_file.h"
#include "core/sim/pace.h"
#include "tools/tenon/calibrate/measure.h"
#include "tools/tenon/calibrate/models.h"
#include "tools/tenon/process/json_text.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/outputs.h"
#include "tools/tenon/shell/places.h"

namespace tenon {
namespace {

constexpr CalibrationShape kPaceModels[] = {{"tale", 0}, {"smollm-135m", 40}};
const std::vector<StepPlan> kPacePlans = {{1, 48}, {8, 16}, {1, 384}};
constexpr uint32_t kPaceRounds = 2;

Status measure_pace(uint32_t threads, std::vector<CalibratedModel>& models) {
  TENON_ASSIGN_OR_RETURN(const TemporaryModels folder, TemporaryModels::make());
  for (const CalibrationShape& shape : kPaceModels) {
    TENON_ASSIGN_OR_RETURN(const std::string path, folder.folder(shape));
    models.push_back({shape.shape, path});
  }
  for (uint32_t round = 0; round < kPaceRounds; ++round) {
    for (CalibratedModel& model : models) {
      TENON_RETURN_IF_ERROR(measure_round(kPacePlans, threads, model));
    }
  }
  return {};
}

std::string pace_json(const std::string& machine, const sim::Pace& pace) {
  return json_text(nlohmann::ordered_json{{"machine", machine},
                                          {"pace", pace.mean},
                                          {"rows", pace.rows},
                                          {"prompts", pace.prompts},
                                          {"least", pace.least},
                                          {"most", pace.most},
                                          {"steps", pace.steps}});
}

}  // namespace

Status pace_against(const AgainstFlags& flags) {
  if (!flags.out.empty()) TENON_RETURN_IF_ERROR(check_output(flags.out));
  if (flags.pace && flags.out.empty()) {
    return invalid_argument("--pace " + format_real(*flags.pace) +
                            " – the file at that pace has no name; give it one (--out)");
  }
  TENON_ASSIGN_OR_RETURN(const std::string data, data_folder());
  TENON_ASSIGN_OR_RETURN(const sim::Machine machine,
                         sim::read_machine(flags.machine, data + "/configs/machines"));
  if (flags.pace) {
    return write_file(flags.out, {sim::machine_toml(sim::at_pace(machine, *flags.pace))});
  }
  std::vector<CalibratedModel> models;
  TENON_RETURN_IF_ERROR(measure_pace(flags.threads, models));
  std::vector<sim::MeasuredStep> steps;
  for (const CalibratedModel& model : models) {
    for (sim::MeasuredStep& step : measured_steps(kPacePlans, model))
      steps.push_back(std::move(step));
  }
  TENON_ASSIGN_OR_RETURN(const sim::Pace pace, sim::pace_of(machine, steps));
  if (flags.json) {
    put(pace_json(machine.name, pace));
  } else {
    putf(
        "steps take %.3f times as long now as %s says (%.3f to %.3f in %u kinds of steps): prompts "
        "%.3f, rows %.3f\n",
        pace.mean, printable(flags.machine).c_str(), pace.least, pace.most, pace.steps,
        pace.prompts, pace.rows);
  }
  if (flags.out.empty()) return {};
  return write_file(flags.out, {sim::machine_toml(sim::at_pace(machine, pace.mean))});
}

}  // namespace tenon
