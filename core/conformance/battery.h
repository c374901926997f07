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

// not_exercised: nothing was found wrong, and nothing could be: the plugin never did what the case
// looks at.
enum class CaseVerdict : uint8_t {
  pass,
  skip,
  not_exercised,
  warn,
  fail,
  crash,
  hang,
  leak,
  too_slow
};
std::string_view case_verdict_name(CaseVerdict verdict);  // "pass", …, "too slow"
// Whether a plugin with this verdict breaks its contract.
bool breaks_contract(CaseVerdict verdict);

// A sentence of a boundary header, or a part of one, as it stands there.
struct Promise {
  std::string_view header;  // "scheduler.h"
  std::string_view sentence;
};

// What came of a case, and in words what was found; empty for most passes.
struct Finding {
  CaseVerdict verdict = CaseVerdict::pass;
  std::string what;
  Promise promise = {};  // the one that was broken, where it is not the case's own
};
inline Finding broke(std::string what) {
  return {CaseVerdict::fail, std::move(what)};
}
inline Finding skipped(std::string why) {
  return {CaseVerdict::skip, std::move(why)};
}
inline Finding not_exercised(std::string why) {
  return {CaseVerdict::not_exercised, std::move(why)};
}

// Whether a case means anything for a plugin that never acts (a drafter that proposes nothing).
enum class Needs : uint8_t { an_acting_plugin, a_plugin };

struct ConformanceCase {
  std::string_view name;       // "scheduler.random_views"
  std::string_view interface;  // "scheduler"; empty = of every interface
  std::string_view header;     // "scheduler.h"
  std::string_view promise;    // a sentence, or a part of one, as it stands there
  Finding (*run)(Subject& subject) = nullptr;
  Needs needs = Needs::an_acting_plugin;
};

// All cases, in the order in which they are worth running.
std::span<const ConformanceCase> conformance_cases();
// Null when there is none of that name.
const ConformanceCase* find_case(std::string_view name);
// Runs one case, with options that make the plugin act if its own values do not; an exception that
// comes out of it is a finding.
Finding run_case(const ConformanceCase& one, Subject& subject);
bool concerns(const ConformanceCase& one, std::string_view interface);

}  // namespace tenon
