// What an installation can do on this machine, and what is wrong with it, item by item.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tenon {

// good: as it should be. note: something is missing or slow that one can do without. wrong:
// something does not work.
enum class Health : uint8_t { good = 0, note = 1, wrong = 2 };
std::string_view health_name(Health health);  // "good", "note", "wrong"

struct DiagnosedItem {
  std::string group;  // "plugins"
  Health health = Health::good;
  std::string name;
  std::string what;  // what was found, and what to do about it where something should be done
};

struct DiagnosisRequest {
  std::vector<std::string> plugin_path;  // looked into before the usual folders
};

// Loads every plugin that it finds, and composes the default pipeline without loading weights.
std::vector<DiagnosedItem> diagnose(const DiagnosisRequest& request);

}  // namespace tenon
