// What makes a plugin do something: a drafter that proposes nothing keeps every promise about
// proposals, and nothing is known of it. Also the values of options that cases try.
#pragma once

#include <string>
#include <vector>

#include "core/conformance/subject.h"

namespace tenon {

struct Acting {
  bool acts = true;
  std::vector<Setting> settings;  // beyond those of the subject
  uint32_t scene = 0;
  std::string note;  // what it took, or what was tried in vain; empty = it acts as it is
};
// Tries the scenes of the subject's interface, first with its own options, then with each value of
// each option that its user left alone. Interfaces whose cases fail for a plugin that does nothing
// need no search.
Acting find_acting(const Subject& subject);

// Whether it proposes a token in the subject's scene; one a source of cases.
constexpr uint32_t kDrafterScenes = 4;
bool drafter_acts(Subject& subject);

// One value of one option.
using Way = std::vector<Setting>;
// The edges of what an option's table allows, and for numbers some values in between.
std::vector<SettingValue> edge_values(const OptionSpec& option);
std::vector<SettingValue> sample_values(const OptionSpec& option);
bool is_free_text(const OptionSpec& option);
// Each value of each option but texts, those left out that the subject's user gave.
std::vector<Way> ways_of(const Subject& subject);
// "adaptive = false"
std::string way_text(const Way& way);

}  // namespace tenon
