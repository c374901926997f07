// The cases of each interface, a list a source.
#pragma once

#include <vector>

#include "core/conformance/battery.h"

namespace tenon {

using CaseList = std::vector<ConformanceCase>;

CaseList lifecycle_cases();
CaseList option_cases();
CaseList scheduler_cases();
CaseList kv_cache_cases();
CaseList sampler_cases();
CaseList sampler_report_cases();
CaseList sampler_verify_cases();
CaseList sampler_stage_cases();
CaseList drafter_cases();
CaseList linear_cases();
CaseList attention_cases();
CaseList state_cases();
CaseList kv_store_cases();

}  // namespace tenon
