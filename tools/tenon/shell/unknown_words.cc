#include "tools/tenon/shell/unknown_words.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/config/other_words.h"
#include "tools/tenon/shell/command_table.h"

namespace tenon {
namespace {

// The command that the words before the unknown one have led to.
const CLI::App& deepest_parsed(const CLI::App& app) {
  const std::vector<CLI::App*> below = app.get_subcommands();
  return below.empty() ? app : deepest_parsed(*below.back());
}

std::string path_of(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return parent == nullptr ? app.get_name() : path_of(*parent) + " " + app.get_name();
}

std::vector<std::string> names_of(const std::vector<CommandEntry>& commands) {
  std::vector<std::string> names;
  for (const CommandEntry& command : commands) names.push_back(command.name());
  return names;
}

// "limits.context_tokens=…"
std::string set_text(std::string_view key) {
  return std::string(key) + (key.find('=') == key.npos ? "=…" : "");
}

bool has_option(const CommandEntry& command, std::string_view name) {
  return std::ranges::any_of(command.options, [&](const OptionEntry& option) {
    return std::ranges::find(option.names, name) != option.names.end();
  });
}

// What other programs, or other commands of this one, call an option.
struct OtherOption {
  std::string_view word;
  std::string_view here;
};
constexpr OtherOption kOtherOptions[] = {
    {"--config", "--base"},          {"--base", "--config"},
    {"--api-key", "--keys"},         {"--chat-template-file", "--chat-template"},
    {"--n-predict", "--max-tokens"}, {"--max-new-tokens", "--max-tokens"},
};
// Commands that ask servers take no key on a command line, where others could read it.
constexpr std::string_view kAskServers[] = {"tenon load", "tenon compare"};

// "'tenon serve' and 'tenon chat' have --chat-template"; "" where none has it, or so many that
// their names would not help.
std::string option_elsewhere(std::string_view name, const CommandEntry& root) {
  constexpr size_t kMostNamed = 3;
  std::vector<std::string> paths;
  for (const CommandEntry* each : all_commands(root)) {
    if (has_option(*each, name)) paths.push_back(in_quotes(each->path));
  }
  if (paths.empty() || paths.size() > kMostNamed) return "";
  return "; " + join_and(paths) + (paths.size() == 1 ? " has " : " have ") + std::string(name);
}

// What was meant by an option that `command` does not have.
std::string meant_option(const std::string& name, const CommandEntry& command,
                         const CommandEntry& root) {
  const OtherWord* key = find_other_word(name);
  if (key != nullptr && has_option(command, "--set") &&
      key->here.find('.') != std::string_view::npos) {
    return "; here that is --set " + set_text(key->here);
  }
  if (name == "--api-key" && std::ranges::count(kAskServers, command.path) > 0) {
    return "; here that is the variable TENON_API_KEY";
  }
  const auto other = std::ranges::find(kOtherOptions, name, &OtherOption::word);
  const bool is_other = other != std::end(kOtherOptions);
  if (is_other && has_option(command, other->here)) {
    return "; here that is " + std::string(other->here);
  }
  const bool is_ours = std::ranges::any_of(
      all_commands(root), [&](const CommandEntry* each) { return has_option(*each, name); });
  std::string elsewhere =
      option_elsewhere(is_other && !is_ours ? other->here : std::string_view(name), root);
  if (!elsewhere.empty()) return elsewhere;
  std::vector<std::string> known;
  for (const OptionEntry& option : command.options) {
    known.insert(known.end(), option.names.begin(), option.names.end());
  }
  return did_you_mean(name, known);
}

std::string unknown_option(const std::string& name, const CommandEntry& command,
                           const CommandEntry& root) {
  return in_quotes(name) + " is no option of " + in_quotes(command.path) +
         meant_option(name, command, root) + " – " + in_quotes(command.path + " --help") +
         " lists them";
}

// A command of another group is what was meant where it is called exactly so.
std::string command_elsewhere(const std::string& name, const CommandEntry& root) {
  for (const CommandEntry* each : all_commands(root)) {
    if (each->name() == name) return "; did you mean " + in_quotes(each->path) + "?";
  }
  return "";
}

std::string unknown_command(const std::string& name, const CommandEntry& command,
                            const CommandEntry& root) {
  const std::vector<std::string> known = names_of(command.commands);
  std::string meant = command_elsewhere(name, root);
  if (meant.empty() && (name == "help" || name == "version")) {
    meant = "; did you mean " + in_quotes(root.path + " --" + name) + "?";
  }
  if (meant.empty()) meant = did_you_mean(name, known);
  return in_quotes(name) + " is no command of " + in_quotes(command.path) + meant +
         " – expected one of " + join(known);
}

// The part of a sentence of the parser's that comes before something.
std::string before(std::string_view sentence, std::string_view mark) {
  return std::string(sentence.substr(0, sentence.find(mark)));
}

// "--seed: 1 required N missing"
std::string missing_value(std::string_view sentence) {
  constexpr std::string_view kRequired = "required ", kMissing = " missing";
  const size_t at = sentence.find(kRequired);
  if (at == sentence.npos || !sentence.ends_with(kMissing)) return "";
  const std::string_view type = sentence.substr(at + kRequired.size());
  return in_quotes(before(sentence, ":")) + " has no value – expected " + before(type, kMissing) +
         " behind it";
}

// "FILE is required"
std::string missing_argument(const std::string& sentence, const std::string& path) {
  const std::string name = before(sentence, " is required");
  if (name == sentence) return "";
  return in_quotes(path) + " lacks " + in_quotes(name) + " – " + in_quotes(path + " --help") +
         " says what that is";
}

}  // namespace

std::string explain_unknown_words(Command program, const CLI::ParseError& error,
                                  std::span<const char* const> words) {
  const CLI::App& app = program.parser();
  const bool extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  const bool missing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  const CommandEntry root = command_table(program);
  const std::string path = path_of(deepest_parsed(app));
  const std::vector<const CommandEntry*> all = all_commands(root);
  const auto command =
      std::ranges::find(all, path, [](const CommandEntry* each) { return each->path; });
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    return missing_value(error.what());
  }
  if ((!extra && !missing) || command == all.end()) return "";
  if (missing && !(*command)->needs_command) return missing_argument(error.what(), path);
  const std::vector<std::string> left = app.remaining(true);
  const auto unknown = std::ranges::find_if(
      words, [&](const char* word) { return std::ranges::find(left, word) != left.end(); });
  if (unknown == words.end()) {
    if (!missing) return "";
    return "a command is missing behind " + in_quotes(path) + " – expected one of " +
           join(names_of((*command)->commands));
  }
  const std::string word = *unknown;
  if (word.size() > 1 && word.front() == '-') {
    return unknown_option(word.substr(0, word.find('=')), **command, root);
  }
  if (!(*command)->commands.empty()) return unknown_command(word, **command, root);
  return in_quotes(word) + " is one argument too many for " + in_quotes(path) +
         " – a text with spaces stands between quotes";
}

}  // namespace tenon
