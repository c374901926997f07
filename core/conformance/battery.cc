#include "core/conformance/battery.h"

#include <exception>
#include <utility>

#include "core/conformance/cases/acting.h"
#include "core/conformance/cases/cases.h"
#include "core/conformance/cases/promises.h"
#include "core/plugin/stamp.h"

namespace tenon {

std::string_view case_verdict_name(CaseVerdict verdict) {
  constexpr std::string_view kNames[] = {"pass",  "skip", "not exercised", "warn",    "fail",
                                         "crash", "hang", "leak",          "too slow"};
  return kNames[static_cast<size_t>(verdict)];
}

bool breaks_contract(CaseVerdict verdict) {
  return verdict >= CaseVerdict::fail;
}

std::span<const ConformanceCase> conformance_cases() {
  static const CaseList kAll = [] {
    CaseList made;
    for (const CaseList& list :
         {lifecycle_cases(), option_cases(), scheduler_cases(), kv_cache_cases(), sampler_cases(),
          sampler_report_cases(), sampler_verify_cases(), sampler_stage_cases(), drafter_cases(),
          linear_cases(), attention_cases(), state_cases(), kv_store_cases()}) {
      made.insert(made.end(), list.begin(), list.end());
    }
    return made;
  }();
  return kAll;
}

const ConformanceCase* find_case(std::string_view name) {
  for (const ConformanceCase& one : conformance_cases()) {
    if (one.name == name) return &one;
  }
  return nullptr;
}

Finding run_case(const ConformanceCase& one, Subject& subject) {
  if (std::string needs = subject.needs(); !needs.empty()) return not_exercised(std::move(needs));
  try {
    if (one.needs == Needs::a_plugin) return one.run(subject);
    const Acting acting = find_acting(subject);
    Subject driven = subject.with(acting.settings, acting.scene);
    Finding found = one.run(driven);
    if (found.verdict == CaseVerdict::fail && found.promise.sentence.empty()) {
      found.promise = promise_against(interface_word(subject.descriptor().interface), found.what);
    }
    if (acting.note.empty() || found.verdict == CaseVerdict::skip) return found;
    found.what += (found.what.empty() ? "" : " – ") + acting.note;
    if (!acting.acts && found.verdict == CaseVerdict::pass) {
      found.verdict = CaseVerdict::not_exercised;
    }
    return found;
  } catch (const std::exception& error) {
    return broke(std::string("what it answered cannot be worked with: ") + error.what());
  }
}

bool concerns(const ConformanceCase& one, std::string_view interface) {
  return one.interface.empty() || one.interface == interface_word(interface);
}

}  // namespace tenon
