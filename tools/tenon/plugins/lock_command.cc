// `tenon plugins lock`: pins the plugin files of a pipeline, or of this installation, as they are.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include "core/base/digest/sha256.h"
#include "core/base/files/mapped_file.h"
#include "core/base/files/new_file.h"
#include "core/base/quote.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/flags.h"
#include "tools/tenon/shell/pipeline_flags.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

struct LockFlags {
  PipelineFlags pipeline;
  std::string output;
};

// By file name, as a lock names them.
Result<std::map<std::string, std::string>> files_to_pin(const PluginRegistry& registry) {
  std::map<std::string, std::string> files;
  for (const PluginFile& file : registry.files()) {
    if (!file.problem.ok()) continue;
    const std::string name = fs::path(file.path).filename();
    const auto [known, is_new] = files.emplace(name, file.path);
    if (is_new) continue;
    return invalid_argument("two files have the name " + in_quotes(name) +
                            ", and a lock tells files by their names; rename or remove one:\n  " +
                            known->second + "\n  " + file.path);
  }
  return files;
}

Status write_plugin_lock(const LockFlags& flags) {
  if (flags.output.empty() && flags.pipeline.config.empty()) {
    return invalid_argument(
        "there is neither --config nor --output; a lock lies beside the pipeline file that it is "
        "for: name that, or a file to write");
  }
  const std::string path =
      flags.output.empty()
          ? (fs::path(flags.pipeline.config).parent_path() / "plugins.lock").string()
          : flags.output;
  PluginSearch search = PluginSearch::standard(flags.pipeline.plugin_path);
  if (!flags.pipeline.config.empty()) {
    TENON_ASSIGN_OR_RETURN(const PipelineConfig config, load_config(flags.pipeline));
    search = plugin_search(flags.pipeline, config);
    search.lock_file.clear();  // it is about to be written
    search.policy = PluginPolicy::open;
  }
  TENON_ASSIGN_OR_RETURN(const PluginRegistry registry, PluginRegistry::open(std::move(search)));
  TENON_ASSIGN_OR_RETURN(const auto files, files_to_pin(registry));
  std::string text = "# The plugin files that may be loaded, with the SHA-256 of their bytes.\n";
  for (const auto& [name, file] : files) {
    TENON_ASSIGN_OR_RETURN(const std::string bytes, read_text_file(file));
    text += sha256_hex(bytes) + "  " + name + "\n";
  }
  TENON_RETURN_IF_ERROR(write_file(path, {text}));
  putf("wrote %s: %zu files\n", one_line(path, kMostPathBytes).c_str(), files.size());
  return {};
}

}  // namespace

void add_plugins_lock(Command plugins, Action& action) {
  auto flags = std::make_shared<LockFlags>();
  Command command =
      plugins.add_subcommand("lock", "Pin plugin files as they are: only these will be loaded");
  add_text(command, "--config", flags->pipeline.config,
           "the pipeline file that the lock is for, and lies beside");
  add_texts(command, "--plugin-path", flags->pipeline.plugin_path,
            "look here first; may be repeated");
  add_text(command, "--output", flags->output, "write here instead of beside the pipeline file");
  command.callback([flags, &action] {
    action = [flags] {
      const Status status = write_plugin_lock(*flags);
      return status.ok() ? 0 : report_failure(status);
    };
  });
}

}  // namespace tenon
