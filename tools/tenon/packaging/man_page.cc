#include "tools/tenon/packaging/man_page.h"

#include <tenon/abi_generated.h>

#include <algorithm>
#include <map>

#include "core/base/utf8.h"
#include "core/report/pages/format.h"

namespace tenon {
namespace {

struct ExitStatus {
  const char* status;
  const char* meaning;
};
// As docs/cli.md has them.
constexpr ExitStatus kExitStatuses[] = {
    {"0", "success; all output was written"},
    {"1", "failure, with a sentence on standard error"},
    {"2", "wrong usage"},
    {"3, 4, 5",
     "of compare: a rule of --fail-if is broken for certain; an arm gives different answers; no "
     "pair was measured. 3 of plugins check: nothing is broken, but a plugin was not exercised"},
    {"129, 130, 131, 143", "ended by SIGHUP, SIGINT, SIGQUIT, SIGTERM"},
    {"141", "the reader of a pipe closed it"},
};

// Text as roff reads it: nothing in it is a request, a hyphen is one that can be copied.
std::string roff(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const Utf8Character character = first_character(text.substr(i));
    const char c = text[i];
    i += std::max<size_t>(1, character.bytes);
    if (character.bytes > 1) {
      out += format("\\[u%04X]", character.code);
    } else if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\'') {
      out += "\\(aq";
    } else if (c == '`') {
      out += "\\(ga";
    } else if (c == '^') {
      out += "\\(ha";
    } else if (c == '~') {
      out += "\\(ti";
    } else if (c == '\n') {
      out += ' ';
    } else {
      out += c;
    }
  }
  return out;
}

// At the begin of a line, where a point is a request.
std::string line(std::string_view text) {
  return "\\&" + roff(text) + "\n";
}

std::string upper_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return text;
}

std::string synopsis(const CommandEntry& command) {
  std::string out = "\\fB" + roff(command.path) + "\\fR";
  if (!command.options.empty()) out += " [\\fIoptions\\fR]";
  for (const OptionEntry& argument : command.positionals) {
    const std::string name =
        "\\fI" + roff(argument.value) + "\\fR" + (argument.repeats ? "\\[u2026]" : "");
    out += argument.required ? " " + name : " [" + name + "]";
  }
  if (!command.commands.empty()) {
    out += command.needs_command ? " \\fIcommand\\fR" : " [\\fIcommand\\fR]";
  }
  return out + "\n";
}

std::string option_text(const OptionEntry& option) {
  std::string names;
  for (const std::string& name : option.names) {
    names += (names.empty() ? "\\fB" : ", \\fB") + roff(name) + "\\fR";
  }
  if (!option.value.empty())
    names += (names.empty() ? "\\fI" : " \\fI") + roff(option.value) + "\\fR";
  const bool says_so = option.sentence.find("may be repeated") != std::string::npos;
  const bool is_silent = option.repeats && !option.names.empty() && !says_so;
  return ".TP\n" + names + "\n" + line(option.sentence + (is_silent ? "; may be repeated" : ""));
}

std::string options_text(const CommandEntry& command) {
  std::vector<std::string> groups;
  std::map<std::string, std::string> texts;
  for (const OptionEntry& option : command.options) {
    if (!texts.contains(option.group)) groups.push_back(option.group);
    texts[option.group] += option_text(option);
  }
  std::string out;
  for (const std::string& group : groups) {
    const bool is_first = out.empty();
    out += (is_first ? ".SH OPTIONS\n" : "");
    if (group != "Options") out += ".SS \"" + roff(group) + "\"\n";
    out += texts[group];
  }
  return out;
}

std::string see_also(const CommandEntry& root, const CommandEntry& command) {
  std::vector<std::string> names;
  if (&command != &root) names.push_back(man_page_name(root));
  for (const CommandEntry& below : command.commands) names.push_back(man_page_name(below));
  std::string out;
  for (const std::string& name : names) {
    out += (out.empty() ? "" : ",\n") + std::string("\\fB") + roff(name) + "\\fR(1)";
  }
  return out.empty() ? "" : ".SH SEE ALSO\n" + out + "\n";
}

}  // namespace

std::string man_page_name(const CommandEntry& command) {
  std::string name = command.path;
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::string man_page(const CommandEntry& root, const CommandEntry& command) {
  const std::string name = man_page_name(command);
  std::string out =
      ".TH \"" + roff(upper_case(name)) + "\" 1 \"\" \"tenon " TENON_SDK_VERSION "\" \"Tenon\"\n";
  out += ".SH NAME\n" + roff(name) + " \\- " + roff(command.sentence) + "\n";
  out += ".SH SYNOPSIS\n" + synopsis(command);
  if (!command.positionals.empty()) {
    out += ".SH ARGUMENTS\n";
    for (const OptionEntry& argument : command.positionals) out += option_text(argument);
  }
  if (!command.commands.empty()) {
    out += ".SH COMMANDS\n";
    for (const CommandEntry& below : command.commands) {
      out += ".TP\n\\fB" + roff(below.name()) + "\\fR\n" + line(below.sentence);
    }
  }
  out += options_text(command);
  if (!command.examples.empty()) out += ".SH EXAMPLES\n";
  for (const std::string& example : command.examples) {
    out += ".TP\n\\fB" + roff(example) + "\\fR\n";
  }
  out += ".SH EXIT STATUS\n";
  for (const ExitStatus& one : kExitStatuses) {
    out += ".TP\n" + std::string(one.status) + "\n" + line(one.meaning);
  }
  return out + see_also(root, command);
}

}  // namespace tenon
