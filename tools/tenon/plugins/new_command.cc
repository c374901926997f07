// `tenon plugins new`: a plugin that works, to be changed.
#include <filesystem>
#include <memory>

#include "core/base/quote.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/plugins/scaffold.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/flags.h"
#include "tools/tenon/shell/places.h"

namespace tenon {
namespace {

struct NewFlags {
  std::string interface;
  std::string id;
  std::string folder;
};

// Where this program is installed; in words where it runs from its build folder.
std::string prefix_of(const std::string& data) {
  const std::filesystem::path folder = data;
  if (folder.filename() == "tenon" && folder.parent_path().filename() == "share") {
    return folder.parent_path().parent_path().string();
  }
  return "PREFIX_OF_TENON";
}

Status create_plugin(const NewFlags& flags) {
  ScaffoldRequest request{flags.interface, flags.id, flags.folder, {}, {}, {}};
  TENON_ASSIGN_OR_RETURN(request.templates, template_folder());
  TENON_ASSIGN_OR_RETURN(request.model, bundled_model());
  TENON_ASSIGN_OR_RETURN(const std::string data, data_folder());
  request.prefix = prefix_of(data);
  TENON_ASSIGN_OR_RETURN(const Scaffold made, write_scaffold(request));
  const std::string folder = one_line(made.folder, kMostPathBytes);
  putf("wrote %s\n", folder.c_str());
  for (const std::string& file : made.files) putf("  %s\n", file.c_str());
  putf(
      "next:\n  cd %s\n  cmake -B build -DCMAKE_PREFIX_PATH=%s && cmake --build build\n"
      "  ctest --test-dir build --output-on-failure\n"
      "  tenon run \"Once upon a time\" --config pipeline.toml\n",
      one_line(shell_word(made.folder), kMostPathBytes).c_str(),
      one_line(shell_word(request.prefix), kMostPathBytes).c_str());
  return {};
}

}  // namespace

void add_plugins_new(Command plugins, Action& action) {
  auto flags = std::make_shared<NewFlags>();
  Command command = plugins.add_subcommand("new", "Write a folder to begin a plugin with");
  command
      .add_option("interface", flags->interface,
                  "scheduler, kv_cache, attention, state, linear, sampler or drafter")
      .required();
  command.add_option("name", flags->id, "VENDOR.NAME, e.g. acme.mine").required();
  add_text(command, "--folder", flags->folder, "folder to write (default: NAME)");
  command.callback([flags, &action] {
    action = [flags] {
      const Status status = create_plugin(*flags);
      return status.ok() ? 0 : report_failure(status);
    };
  });
}

}  // namespace tenon
