#include "tools/tenon/packaging/completion.h"

#include "core/base/text.h"
#include "core/plugin/descriptor_check.h"
#include "core/plugin/stamp.h"

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

constexpr std::string_view kNewPlugin = "tenon plugins new";

std::string interface_words() {
  std::vector<std::string> words;
  for (const std::string_view id : known_interfaces()) words.emplace_back(interface_word(id));
  return join(words, " ");
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
  if (!only_with_value && command.path == kNewPlugin) words.push_back(interface_words());
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
  if (command.path == kNewPlugin) {
    for (const std::string_view id : known_interfaces()) {
      commands.push_back(described(interface_word(id), "interface of the plugin"));
    }
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
  if (option.names.back() == "--set") {
    line += " -x -a '(__tenon_settings)'";
  } else if (!option.value.empty()) {
    line += " -r -F";
  }
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
         "  # --set KEY=VALUE: bash takes the = for a word of its own.\n"
         "  local key=\n"
         "  if [[ $word == = && ${COMP_WORDS[COMP_CWORD - 2]} == --set ]]; then\n"
         "    key=$before word=\n"
         "  elif [[ $before == = && ${COMP_WORDS[COMP_CWORD - 3]} == --set ]]; then\n"
         "    key=${COMP_WORDS[COMP_CWORD - 2]}\n"
         "  fi\n"
         "  if [[ $key ]]; then\n"
         "    mapfile -t COMPREPLY < <(compgen -W \"$(\"${COMP_WORDS[0]}\" completion --values "
         "\"$key\" 2>/dev/null)\" -- \"$word\")\n"
         "    return\n"
         "  elif [[ $before == --set ]]; then\n"
         "    mapfile -t COMPREPLY < <(compgen -S = -W \"$(\"${COMP_WORDS[0]}\" completion --keys "
         "2>/dev/null)\" -- \"$word\")\n"
         "    compopt -o nospace 2>/dev/null\n"
         "    return\n"
         "  fi\n"
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
         "  if [[ ${words[CURRENT-1]} == --set ]]; then\n"
         "    if compset -P '*='; then\n"
         "      compadd -- ${(f)\"$($words[1] completion --values ${IPREFIX%=} 2>/dev/null)\"}\n"
         "    else\n"
         "      compadd -S = -- ${(f)\"$($words[1] completion --keys 2>/dev/null)\"}\n"
         "    fi\n"
         "    return\n"
         "  fi\n"
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
      "end\n"
      "function __tenon_settings\n"
      "  set -l given (string split -m 1 = -- (commandline -ct))\n"
      "  if test (count $given) -eq 2\n"
      "    for value in (tenon completion --values $given[1] 2>/dev/null)\n"
      "      echo $given[1]=$value\n"
      "    end\n"
      "  else\n"
      "    for key in (tenon completion --keys 2>/dev/null)\n"
      "      echo $key=\n"
      "    end\n"
      "  end\n"
      "end\n";
  for (const CommandEntry* command : all_commands(root)) {
    for (const CommandEntry& below : command->commands) {
      out += "complete -c tenon -n " + fish_quoted("__tenon_at " + command->path) + " -f -a " +
             below.name() + " -d " + fish_quoted(below.sentence) + "\n";
    }
    if (command->path == kNewPlugin) {
      out += "complete -c tenon -n " + fish_quoted("__tenon_at " + command->path) + " -f -a " +
             fish_quoted(interface_words()) + "\n";
    }
    for (const OptionEntry& option : command->options) out += fish_option(*command, option);
  }
  return out;
}

}  // namespace tenon
