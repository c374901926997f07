#include "tools/tenon/packaging/completion.h"

#include "core/base/text.h"

namespace tenon {
namespace {

// Between single quotes, as all three shells read it.
std::string shell_quoted(std::string_view text, std::string_view quote_in_text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += quote_in_text;
    } else {
      out += c;
    }
  }
  return out + "'";
}
std::string in_single_quotes(std::string_view text) {
  return shell_quoted(text, "'\\''");
}

// "'tenon run'|'tenon model'": all that has a command's name at its end.
std::string paths_pattern(const CommandEntry& root, std::string_view separator) {
  std::vector<std::string> paths;
  for (const CommandEntry* command : all_commands(root)) {
    if (command != &root) paths.push_back(in_single_quotes(command->path));
  }
  return join(paths, separator);
}

// What may follow, and of it those options that a value follows.
std::string words_of(const CommandEntry& command, bool only_with_value) {
  std::vector<std::string> words;
  for (const CommandEntry& below : command.commands) {
    if (!only_with_value) words.push_back(below.name());
  }
  for (const OptionEntry& option : command.options) {
    if (only_with_value && option.value.empty()) continue;
    words.insert(words.end(), option.names.begin(), option.names.end());
  }
  return join(words, " ");
}

// Of a list of zsh's _describe: "name:sentence", where a colon in a name would end it.
std::string described(std::string_view name, const std::string& sentence) {
  return in_single_quotes(std::string(name) + ":" + sentence);
}

std::string zsh_arm(const CommandEntry& command) {
  std::vector<std::string> commands, options, with_value;
  for (const CommandEntry& below : command.commands) {
    commands.push_back(described(below.name(), below.sentence));
  }
  for (const OptionEntry& option : command.options) {
    for (const std::string& name : option.names) {
      options.push_back(described(name, option.sentence));
      if (!option.value.empty()) with_value.push_back(in_single_quotes(name));
    }
  }
  return "    " + in_single_quotes(command.path) + ")\n      commands=(" + join(commands, " ") +
         ")\n      options=(" + join(options, "\n        ") + ")\n      with_value=(" +
         join(with_value, " ") + ")\n      ;;\n";
}

std::string fish_quoted(std::string_view text) {
  return shell_quoted(text, "\\'");
}

std::string fish_option(const CommandEntry& command, const OptionEntry& option) {
  std::string line = "complete -c tenon -n " + fish_quoted("__tenon_at " + command.path);
  for (const std::string& name : option.names) {
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (!option.value.empty()) line += " -r -F";
  return line + " -d " + fish_quoted(option.sentence) + "\n";
}

}  // namespace

std::string bash_completion(const CommandEntry& root) {
  std::string out =
      "# bash completion of tenon; made by `tenon completion bash`.\n"
      "_tenon() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
      "  local at=tenon words= with_value= i\n"
      "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
      "    case \"$at ${COMP_WORDS[i]}\" in\n"
      "      " +
      paths_pattern(root, " | ") +
      ") at=\"$at ${COMP_WORDS[i]}\" ;;\n"
      "    esac\n"
      "  done\n"
      "  case \"$at\" in\n";
  for (const CommandEntry* command : all_commands(root)) {
    out += "    " + in_single_quotes(command->path) + ")\n      words='" +
           words_of(*command, false) + "'\n      with_value='" + words_of(*command, true) +
           "'\n      ;;\n";
  }
  return out +
         "  esac\n"
         "  COMPREPLY=()\n"
         "  # The value of an option is most often a file: that is the shell's own business.\n"
         "  case \" $with_value \" in *\" $before \"*) return ;; esac\n"
         "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
         "}\n"
         "complete -o bashdefault -o default -F _tenon tenon\n";
}

std::string zsh_completion(const CommandEntry& root) {
  std::string out =
      "#compdef tenon\n"
      "# zsh completion of tenon; made by `tenon completion zsh`.\n"
      "_tenon() {\n"
      "  local at=tenon word\n"
      "  local -a commands options with_value\n"
      "  for word in ${words[2,CURRENT-1]}; do\n"
      "    case \"$at $word\" in\n"
      "      (" +
      paths_pattern(root, "|") +
      ") at=\"$at $word\" ;;\n"
      "    esac\n"
      "  done\n"
      "  case \"$at\" in\n";
  for (const CommandEntry* command : all_commands(root)) out += zsh_arm(*command);
  return out +
         "  esac\n"
         "  if (( ${with_value[(Ie)${words[CURRENT-1]}]} )); then\n"
         "    _files\n"
         "  elif [[ $PREFIX == -* ]]; then\n"
         "    _describe -o option options\n"
         "  elif (( $#commands )); then\n"
         "    _describe command commands || _files\n"
         "  else\n"
         "    _files\n"
         "  fi\n"
         "}\n"
         "if [[ $funcstack[1] == _tenon ]]; then _tenon \"$@\"; else compdef _tenon tenon; fi\n";
}

std::string fish_completion(const CommandEntry& root) {
  std::string out =
      "# fish completion of tenon; made by `tenon completion fish`.\n"
      "function __tenon_at\n"
      "  set -l at tenon\n"
      "  for word in (commandline -opc)[2..-1]\n"
      "    switch \"$at $word\"\n"
      "      case " +
      paths_pattern(root, " ") +
      "\n"
      "        set at \"$at $word\"\n"
      "    end\n"
      "  end\n"
      "  test \"$at\" = \"$argv\"\n"
      "end\n";
  for (const CommandEntry* command : all_commands(root)) {
    for (const CommandEntry& below : command->commands) {
      out += "complete -c tenon -n " + fish_quoted("__tenon_at " + command->path) + " -f -a " +
             below.name() + " -d " + fish_quoted(below.sentence) + "\n";
    }
    for (const OptionEntry& option : command->options) out += fish_option(*command, option);
  }
  return out;
}

}  // namespace tenon
