#include "tools/tenon/shell/command_table.h"

#include <CLI/CLI.hpp>

#include "core/base/text.h"

namespace tenon {
namespace {

std::vector<std::string> option_names(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

OptionEntry entry_of(const CLI::Option& option) {
  OptionEntry entry{.names = option_names(option),
                    .value = option.get_type_name(),
                    .sentence = option.get_description(),
                    .group = option.get_group(),
                    .repeats = option.get_expected_max() > 1,
                    .required = option.get_required()};
  if (option.get_items_expected_max() == 0) entry.value.clear();
  if (entry.names.empty()) {
    // Where an argument has a type of its own, that is what it is called.
    if (entry.value.empty() || entry.value == "TEXT") entry.value = option.get_name();
  }
  return entry;
}

std::vector<std::string> examples_of(const CLI::App& app) {
  std::vector<std::string> examples;
  const std::string text = app.get_footer();
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with(' ')) examples.emplace_back(trim(line));
  }
  return examples;
}

CommandEntry described_command(const CLI::App& app, const std::string& path) {
  CommandEntry entry{.path = path,
                     .sentence = app.get_description(),
                     .examples = examples_of(app),
                     .needs_command = app.get_require_subcommand_min() > 0};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    std::vector<OptionEntry>& list = option->nonpositional() ? entry.options : entry.positionals;
    list.push_back(entry_of(*option));
  }
  const auto is_shown = [](const CLI::App* below) { return !below->get_group().empty(); };
  for (const CLI::App* below : app.get_subcommands(is_shown)) {
    entry.commands.push_back(described_command(*below, path + " " + below->get_name()));
  }
  return entry;
}

void gather(const CommandEntry& entry, std::vector<const CommandEntry*>& out) {
  out.push_back(&entry);
  for (const CommandEntry& below : entry.commands) gather(below, out);
}

}  // namespace

CommandEntry command_table(Command program) {
  const CLI::App& app = program.parser();
  return described_command(app, app.get_name());
}

std::vector<const CommandEntry*> all_commands(const CommandEntry& root) {
  std::vector<const CommandEntry*> all;
  gather(root, all);
  return all;
}

}  // namespace tenon
