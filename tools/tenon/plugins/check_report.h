// What `tenon plugins check` found, for people, programs and the pages of a CI.
#pragma once

#include <string>
#include <vector>

#include "core/conformance/battery.h"

namespace tenon {

struct CheckedCase {
  std::string plugin;  // "scheduler/acme.mine"; empty = of the file as a whole
  std::string name;
  CaseVerdict verdict = CaseVerdict::pass;
  std::string what;
  std::string header;   // <tenon/scheduler.h>
  std::string promise;  // as it stands there
  std::string again;    // a command that does it again
  double seconds = 0;
};

struct CheckReport {
  std::string file;
  uint64_t seed = 0;
  std::vector<CheckedCase> cases;  // of further seeds only those that break something
  uint64_t fuzz_seeds = 0;         // further ones that were begun …
  uint64_t fuzz_cases = 0;         // … and their cases

  bool sound() const;      // nothing breaks the contract
  bool exercised() const;  // and no case was without a plugin that acts
};

// "  fail  scheduler.random_views  grants sequence 3 twice", with promise and command where broken.
std::string case_text(const CheckedCase& one);
// "14 passed, 2 were skipped, 1 failed"
std::string summary_text(const CheckReport& report);
// "  176 cases from 8 further seeds"
std::string fuzz_text(const CheckReport& report);
std::string report_json(const CheckReport& report);
std::string report_junit(const CheckReport& report);

}  // namespace tenon
