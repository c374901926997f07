// The program's commands and options as plain data, read from the very parser that runs: what
// completion and manual pages are made of.
#pragma once

#include <string>
#include <vector>

#include "tools/tenon/shell/command_line.h"

namespace tenon {

struct OptionEntry {
  std::vector<std::string> names;  // "-h", "--help"; empty = a positional argument
  std::string value;               // what stands for its value: "FILE"; empty = it takes none
  std::string sentence;
  std::string group;
  bool repeats = false;
  bool required = false;
};

struct CommandEntry {
  std::string path = {};  // "tenon model info"
  std::string sentence = {};
  std::vector<std::string> examples = {};  // "tenon model info llama-1b"
  std::vector<OptionEntry> positionals = {}, options = {};
  std::vector<CommandEntry> commands = {};  // those that --help shows
  bool needs_command = false;               // nothing runs without one of them

  std::string name() const { return path.substr(path.rfind(' ') + 1); }
};

// The program itself, with everything below it.
CommandEntry command_table(Command program);
// All of them, each before those below it.
std::vector<const CommandEntry*> all_commands(const CommandEntry& root);

}  // namespace tenon
