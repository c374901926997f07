// The promises of interfaces, as cases: each checks one promise of one plugin, from a seed, and
// reports the outcome. The caller gives each case a process of its own: plugins crash, hang, and
// leave things behind.
//
//   for (const ConformanceCase& one : conformance_cases()) …
//
// A case quotes the sentence of the header that it holds the plugin to; a test holds the quotation
// to the header.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/conformance/subject.h"

namespace tenon {

enum class CaseVerdict : uint8_t { pass, skip, warn, fail, crash, hang, leak, too_slow };
std::string_view case_verdict_name(CaseVerdict verdict);  // "pass", …, "too slow"
// Whether a plugin with this verdict breaks its contract.
bool breaks_contract(CaseVerdict verdict);

// What came of a case, and in words what was found; empty for a pass.
struct Finding {
  CaseVerdict verdict = CaseVerdict::pass;
  std::string what;
};
inline Finding broke(std::string what) {
  return {CaseVerdict::fail, std::move(what)};
}
inline Finding skipped(std::string why) {
  return {CaseVerdict::skip, std::move(why)};
}

struct ConformanceCase {
  std::string_view name;       // "scheduler.random_views"
  std::string_view interface;  // "scheduler"; empty = of every interface
  std::string_view header;     // "scheduler.h"
  std::string_view promise;    // a sentence, or a part of one, as it stands there
  Finding (*run)(Subject& subject) = nullptr;
};

// All cases, in the order in which they are worth running.
std::span<const ConformanceCase> conformance_cases();
// Null when there is none of that name.
const ConformanceCase* find_case(std::string_view name);
// Runs one case; an exception that comes out of it is a finding.
Finding run_case(const ConformanceCase& one, Subject& subject);
bool concerns(const ConformanceCase& one, std::string_view interface);

}  // namespace tenon
