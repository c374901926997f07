#include <tenon/plugin.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/machine/host_facts.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/isolation/looked_at.h"
#include "core/plugin/descriptor_check.h"
#include "core/plugin/options.h"
#include "core/plugin/registry.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/process/json_text.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/flags.h"

namespace tenon {
namespace {

struct Flags {
  std::vector<std::string> plugin_path;
  std::string interface;  // list: "scheduler", or empty for all
  std::string name;       // inspect: "scheduler/chunked"
  bool json = false;
};

using Json = nlohmann::ordered_json;

// "scheduler" → "scheduler/2".
std::string interface_id(std::string_view word) {
  for (const std::string_view known : known_interfaces()) {
    if (interface_word(known) == word || known == word) return std::string(known);
  }
  return std::string(word);
}

std::string fact_text(const Fact& fact) {
  std::string number = std::to_string(fact.number);
  switch (fact.op) {
    case FactOp::all_of:
      return "all of " + std::string(fact.words);
    case FactOp::in: {
      std::string words(fact.words);
      std::replace(words.begin(), words.end(), ' ', '|');
      return words;
    }
    case FactOp::at_least:
      return "at least " + number;
    case FactOp::at_most:
      return "at most " + number;
    case FactOp::multiple_of:
      return "a multiple of " + number;
    case FactOp::equals:
      return number;
    case FactOp::context:
      return "the context length";
  }
  return "?";
}

Json describe_plugin(const PluginRef& plugin, const HostFacts& host) {
  const PluginDescriptor& descriptor = *plugin.descriptor;
  Json out;
  out["interface"] = interface_word(descriptor.interface);
  out["id"] = descriptor.id;
  out["version"] = descriptor.version;
  out["license"] = descriptor.license;
  out["summary"] = descriptor.summary;
  out["file"] = plugin.library->path;
  out["score"] = score_of(plugin, host);
  if (score_of(plugin, host) == 0) out["unavailable"] = descriptor.unavailable;
  out["options"] = Json::array();
  for (const OptionSpec& option : std::span(descriptor.options, descriptor.option_count)) {
    out["options"].push_back({{"key", option.key},
                              {"accepts", describe_option(option)},
                              {"default", default_as_toml(option)},
                              {"sentence", option.sentence}});
  }
  const auto add_facts = [&out](const char* key, const Fact* facts, uint32_t count) {
    out[key] = Json::array();
    for (const Fact& fact : std::span(facts, count)) {
      out[key].push_back({{"key", fact.key}, {"value", fact_text(fact)}});
    }
  };
  add_facts("provides", descriptor.provides, descriptor.provide_count);
  add_facts("requires", descriptor.requirements, descriptor.requirement_count);
  return out;
}

void print_plugin(const Json& plugin) {
  // What a library says of itself is not to be trusted with a terminal.
  const auto text = [](const Json& value) {
    return one_line(value.get<std::string>(), kMostPathBytes);
  };
  putf("%s %s %s (%s)\n  %s\n  file: %s\n", text(plugin["interface"]).c_str(),
       text(plugin["id"]).c_str(), text(plugin["version"]).c_str(), text(plugin["license"]).c_str(),
       text(plugin["summary"]).c_str(), text(plugin["file"]).c_str());
  if (plugin.contains("unavailable")) {
    putf("  not usable here: %s\n", text(plugin["unavailable"]).c_str());
  }
  put(plugin["options"].empty() ? "  no options\n" : "  options:\n");
  for (const Json& option : plugin["options"]) {
    putf("    %s = %s\n      %s (%s)\n", text(option["key"]).c_str(),
         text(option["default"]).c_str(), text(option["sentence"]).c_str(),
         text(option["accepts"]).c_str());
  }
  for (const char* kind : {"provides", "requires"}) {
    if (plugin[kind].empty()) continue;
    putf("  %s:\n", kind);
    for (const Json& fact : plugin[kind]) {
      putf("    %-18s %s\n", text(fact["key"]).c_str(), text(fact["value"]).c_str());
    }
  }
}

bool offers(const PluginFile& file, const std::string& wanted) {
  return file.stamp && std::ranges::any_of(file.stamp->plugins, [&](const PluginName& name) {
           return wanted == interface_word(name.interface) || wanted == name.interface;
         });
}

// Files that were not looked at have plugins of other interfaces.
void print_problems(LookedAtPlugins& plugins, const std::string& wanted) {
  for (const PluginFile& file : plugins.registry().files()) {
    if (!file.problem.ok()) {
      putf("%s: %s\n", file.stray ? "skipped" : "cannot be used", one_line(file.problem).c_str());
      continue;
    }
    if (!wanted.empty() && !offers(file, wanted)) continue;
    if (const Status problem = plugins.problem(file); !problem.ok()) {
      putf("cannot be used: %s\n", one_line(problem).c_str());
    }
  }
}

void print_listed(LookedAtPlugins& plugins, const std::string& wanted) {
  for (const PluginFile& file : plugins.registry().files()) {
    if (!file.stamp) continue;
    for (const PluginName& name : file.stamp->plugins) {
      const std::string word(interface_word(name.interface));
      if (!wanted.empty() && wanted != word && wanted != name.interface) continue;
      putf("%-10s %-20s %s\n", one_line(word).c_str(), one_line(name.id).c_str(),
           one_line(file.path, kMostPathBytes).c_str());
      if (knows_interface(name.interface)) continue;
      putf("  skipped: %s\n", one_line(unknown_interface(name.interface)).c_str());
    }
  }
  print_problems(plugins, wanted);
}

std::vector<std::string> known_words() {
  std::vector<std::string> words;
  for (const std::string_view id : known_interfaces()) words.emplace_back(interface_word(id));
  return words;
}

// Files may have plugins of interfaces that this program doesn't know.
bool known_or_offered(const PluginRegistry& registry, const std::string& wanted) {
  return knows_interface(wanted) ||
         std::ranges::any_of(registry.files(),
                             [&](const PluginFile& file) { return offers(file, wanted); });
}

Json listed(PluginRegistry& registry, const PluginName& name, const HostFacts& host) {
  const auto plugin = registry.find(name.interface, name.id);
  if (plugin.ok()) return describe_plugin(*plugin, host);
  return {{"interface", interface_word(name.interface)},
          {"id", name.id},
          {"problem", one_line(plugin.status())}};
}

Status list(const Flags& flags) {
  const HostFacts host = host_facts();
  TENON_ASSIGN_OR_RETURN(LookedAtPlugins plugins, LookedAtPlugins::open(flags.plugin_path, host));
  PluginRegistry& registry = plugins.registry();
  const std::string wanted = flags.interface.empty() ? "" : interface_id(flags.interface);
  if (!wanted.empty() && !known_or_offered(registry, wanted)) {
    return invalid_argument("there is no interface " + in_quotes(wanted) + "; expected one of " +
                            join(known_words()));
  }
  plugins.look_at_all(wanted);
  if (!flags.json) {
    print_listed(plugins, wanted);
    return {};
  }
  Json out = Json::array();
  for (const PluginName& name : registry.names(wanted)) {
    out.push_back(listed(registry, name, host));
  }
  put(json_text(out));
  return {};
}

Status inspect(const Flags& flags) {
  const size_t slash = flags.name.find('/');
  if (slash == std::string::npos) {
    return invalid_argument(in_quotes(flags.name) +
                            " does not name a plugin; expected INTERFACE/ID, for example "
                            "scheduler/continuous: `tenon plugins list` shows them");
  }
  const HostFacts host = host_facts();
  TENON_ASSIGN_OR_RETURN(LookedAtPlugins plugins, LookedAtPlugins::open(flags.plugin_path, host));
  TENON_ASSIGN_OR_RETURN(const PluginRef plugin,
                         plugins.registry().find(interface_id(flags.name.substr(0, slash)),
                                                 flags.name.substr(slash + 1)));
  const Json described = describe_plugin(plugin, host);
  if (flags.json) {
    put(json_text(described));
  } else {
    print_plugin(described);
  }
  return {};
}

int finish(const Status& status) {
  return status.ok() ? 0 : report_failure(status);
}

}  // namespace

void add_plugins_command(Command app, Action& action) {
  auto flags = std::make_shared<Flags>();
  Command plugins = app.add_subcommand("plugins", "What can be composed into a pipeline");
  plugins.require_subcommand();

  Command listing = plugins.add_subcommand("list", "List the plugins that can be found");
  listing.add_option("interface", flags->interface, "only of this interface, e.g. scheduler");
  Command inspecting = plugins.add_subcommand("inspect", "Show a plugin's options and facts");
  inspecting.add_option("name", flags->name, "INTERFACE/ID, e.g. scheduler/continuous").required();
  for (Command command : {listing, inspecting}) {
    add_texts(command, "--plugin-path", flags->plugin_path, "look here first; may be repeated");
    command.add_flag("--json", flags->json, "machine-readable output");
  }
  listing.callback([flags, &action] { action = [flags] { return finish(list(*flags)); }; });
  inspecting.callback([flags, &action] { action = [flags] { return finish(inspect(*flags)); }; });
  add_plugins_new(plugins, action);
  add_plugins_build(plugins, action);
  add_plugins_check(plugins, action);
  add_plugins_lock(plugins, action);
}

}  // namespace tenon
