// `tenon doctor`: what this installation can do here, and what is wrong with it.
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/tenon/commands.h"
#include "tools/tenon/doctor/diagnosis.h"
#include "tools/tenon/process/json_text.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/flags.h"

namespace tenon {
namespace {

struct DoctorFlags {
  DiagnosisRequest request;
  bool json = false;
};

size_t count_of(const std::vector<DiagnosedItem>& items, Health health) {
  return static_cast<size_t>(
      std::count_if(items.begin(), items.end(),
                    [health](const DiagnosedItem& item) { return item.health == health; }));
}

void print_items(const std::vector<DiagnosedItem>& items) {
  std::string group;
  for (const DiagnosedItem& item : items) {
    if (item.group != group) putf("%s\n", item.group.c_str());
    group = item.group;
    putf("  %-5s  %s: %s\n", std::string(health_name(item.health)).c_str(), item.name.c_str(),
         item.what.c_str());
  }
  const size_t wrong = count_of(items, Health::wrong), notes = count_of(items, Health::note);
  if (wrong > 0) {
    putf("%zu wrong, %zu to know about\n", wrong, notes);
  } else {
    putf("nothing is wrong, %zu to know about\n", notes);
  }
}

void print_json(const std::vector<DiagnosedItem>& items) {
  nlohmann::ordered_json out;
  out["wrong"] = count_of(items, Health::wrong);
  out["items"] = nlohmann::ordered_json::array();
  for (const DiagnosedItem& item : items) {
    out["items"].push_back({{"group", item.group},
                            {"health", health_name(item.health)},
                            {"name", item.name},
                            {"what", item.what}});
  }
  put(json_text(out));
}

int examine(const DoctorFlags& flags) {
  const std::vector<DiagnosedItem> items = diagnose(flags.request);
  flags.json ? print_json(items) : print_items(items);
  return count_of(items, Health::wrong) == 0 ? 0 : 1;
}

}  // namespace

void add_doctor_command(Command app, Action& action) {
  auto flags = std::make_shared<DoctorFlags>();
  Command command = app.add_subcommand(
      "doctor", "Say what this installation can do on this machine, and what is wrong with it");
  add_texts(command, "--plugin-path", flags->request.plugin_path,
            "look for plugins here first; may be repeated");
  command.add_flag("--json", flags->json, "machine-readable output");
  command.callback([flags, &action] { action = [flags] { return examine(*flags); }; });
}

}  // namespace tenon
