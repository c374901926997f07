// `tenon completion` and `tenon man`: files that distributions install next to the program, made
// from its own options.
#include "tools/tenon/commands.h"

#include <filesystem>
#include <memory>

#include "core/base/files/new_file.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "tools/tenon/packaging/completion.h"
#include "tools/tenon/packaging/man_page.h"
#include "tools/tenon/packaging/setting_values.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/flags.h"

namespace tenon {
namespace {

struct Shell {
  std::string name;
  std::string (*script)(const CommandEntry& root);
};
const Shell kShells[] = {
    {"bash", bash_completion}, {"zsh", zsh_completion}, {"fish", fish_completion}};

Status print_completion(const CommandEntry& root, const std::string& wanted) {
  for (const Shell& shell : kShells) {
    if (shell.name != wanted) continue;
    put(shell.script(root));
    return {};
  }
  return invalid_argument("there is no completion for " + in_quotes(wanted) +
                          " – expected bash, zsh or fish");
}

Result<const CommandEntry*> find_command(const CommandEntry& root,
                                         const std::vector<std::string>& words) {
  const CommandEntry* at = &root;
  for (const std::string& word : words) {
    std::vector<std::string> known;
    const CommandEntry* next = nullptr;
    for (const CommandEntry& below : at->commands) {
      known.push_back(below.name());
      if (below.name() == word) next = &below;
    }
    if (next == nullptr) {
      return invalid_argument(in_quotes(word) + " is no command of " + at->path +
                              did_you_mean(word, known));
    }
    at = next;
  }
  return at;
}

Status write_pages(const CommandEntry& root, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return failed("cannot make " + path_in_quotes(folder) + ": " + error.message());
  for (const CommandEntry* command : all_commands(root)) {
    const std::string path = folder + "/" + man_page_name(*command) + ".1";
    TENON_RETURN_IF_ERROR(write_file(path, {man_page(root, *command)}));
  }
  return {};
}

struct ManFlags {
  std::vector<std::string> command;
  std::string folder;
};

Status print_page(const CommandEntry& root, const ManFlags& flags) {
  if (!flags.folder.empty()) return write_pages(root, flags.folder);
  TENON_ASSIGN_OR_RETURN(const CommandEntry* command, find_command(root, flags.command));
  put(man_page(root, *command));
  return {};
}

}  // namespace

void add_packaging_commands(Command app, Action& action) {
  struct CompletionFlags {
    std::string shell, values;
    bool keys = false;
  };
  auto given = std::make_shared<CompletionFlags>();
  Command completion =
      app.add_subcommand("completion", "Print a script that completes the program's command line");
  add_text(completion, "shell", given->shell, "bash, zsh or fish");
  // What the scripts ask.
  completion.add_flag("--keys", given->keys, "").group("");
  add_text(completion, "--values", given->values, "").group("");
  completion.callback([given, app, &action] {
    const bool asks = given->keys || !given->values.empty();
    refuse_without(asks || !given->shell.empty(), "bash, zsh or fish");
    action = [given, app, asks] {
      if (asks) {
        const auto words = given->keys ? setting_keys() : setting_values(given->values);
        for (const std::string& word : words) put(word + "\n");
        return 0;
      }
      const Status status = print_completion(command_table(app), given->shell);
      return status.ok() ? 0 : report_failure(status);
    };
  });

  auto flags = std::make_shared<ManFlags>();
  Command man = app.add_subcommand("man", "Print a manual page, as roff");
  Option words = man.add_option("command", flags->command,
                                "the command, such as: model info (default: the program)");
  add_text(man, "--into", flags->folder, "write all pages into this folder instead")
      .excludes(words);
  man.callback([flags, app, &action] {
    action = [flags, app] {
      const Status status = print_page(command_table(app), *flags);
      return status.ok() ? 0 : report_failure(status);
    };
  });
}

}  // namespace tenon
