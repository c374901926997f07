// What a comparison measures as JSON: between its processes, and in its folder of results.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "core/base/result.h"
#include "core/report/statistics/analysis.h"
#include "core/report/statistics/measured.h"

namespace tenon::compare {

using Json = nlohmann::ordered_json;

std::string line_of(const Json& json);  // on one line, with its end

Json piece_json(const MeasuredPiece& piece);  // without its requests
Json row_json(const RequestRow& row);
Json arm_json(const MeasuredArm& arm);
Json fidelity_json(const Fidelity& fidelity);
Json plan_json(const MeasuredPlan& plan);
Json analysis_json(const MeasuredComparison& measured, const Analysis& analysis);

// Errors name what is missing or of another kind: invalid_argument.
Result<MeasuredPiece> piece_of(const Json& json);
Result<RequestRow> row_of(const Json& json);
Result<MeasuredArm> arm_of(const Json& json);
Result<Fidelity> fidelity_of(const Json& json);
Result<MeasuredPlan> plan_of(const Json& json);

}  // namespace tenon::compare
