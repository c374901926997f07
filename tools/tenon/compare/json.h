// What a comparison measures as JSON: between its processes, and in its folder of results.
#pragma once

#include <nlohmann/json.hpp>

#include "core/base/result.h"
#include "core/report/statistics/analysis.h"
#include "core/report/statistics/measured.h"

namespace tenon {

using CompareJson = nlohmann::ordered_json;

CompareJson piece_json(const MeasuredPiece& piece);  // without its requests
CompareJson row_json(const RequestRow& row);
CompareJson arm_json(const MeasuredArm& arm);
CompareJson fidelity_json(const Fidelity& fidelity);
CompareJson plan_json(const MeasuredPlan& plan);
CompareJson analysis_json(const MeasuredComparison& measured, const Analysis& analysis);

// Errors name what is missing or of another kind: invalid_argument.
Result<MeasuredPiece> piece_of(const CompareJson& json);
Result<RequestRow> row_of(const CompareJson& json);
Result<MeasuredArm> arm_of(const CompareJson& json);
Result<Fidelity> fidelity_of(const CompareJson& json);
Result<MeasuredPlan> plan_of(const CompareJson& json);

}  // namespace tenon
