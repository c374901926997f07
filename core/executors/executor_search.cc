#include "core/executors/executor_search.h"

#include <filesystem>

#include "core/base/files/own_place.h"
#include "core/base/log.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/exec/executor_library.h"
#include "core/plugin/search.h"
#include "core/plugin/shared_library.h"
#include "core/plugin/stamp.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

std::string executor_named(std::string_view name) {
  return "the executor \"" + std::string(name) + "\"";
}

Status check_build(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const std::string stamp, read_executor_stamp(path));
  if (stamp == TENON_EXECUTOR_STAMP) return {};
  const std::string found = stamp.empty() ? "it has no stamp" : "its stamp is " + stamp;
  return unsupported(path + ": " + found + ", this program's is " TENON_EXECUTOR_STAMP +
                     ": executors must come from the very build of the program; install both from "
                     "one package, or build both again");
}

Result<ExecutorFactory> load_executor(const std::string& path, const std::string& name) {
  TENON_RETURN_IF_ERROR(check_build(path));
  TENON_ASSIGN_OR_RETURN(const void* found,
                         load_shared_library(path, path, kExecutorLibrarySymbol));
  if (found == nullptr) {
    return failed(path + ": it does not export " + in_quotes(kExecutorLibrarySymbol) +
                  "; it must end with TENON_EXECUTOR_LIBRARY");
  }
  const auto* library = static_cast<const ExecutorLibrary*>(found);
  library->log_to([](LogLevel level, std::string_view component, std::string_view text) {
    log(level, component, text);
  });
  return ExecutorFactory([library, name](const HostFacts& host) {
    Result<std::unique_ptr<Executor>> made = library->make(host);
    if (made.ok()) return made;
    return Result<std::unique_ptr<Executor>>(
        Status::error(made.status().code(),
                      executor_named(name) + " is installed, but " + message_of(made.status())));
  });
}

}  // namespace

std::vector<std::string> installed_executor_folders() {
  const std::string own = own_file();
  return own.empty() ? std::vector<std::string>() : executor_folders_beside(own);
}

std::vector<std::string> executor_folders_beside(const std::string& program) {
  std::vector<std::string> folders;
  for (const std::string& plugins : plugin_folders_beside(program)) {
    folders.push_back(fs::path(plugins).parent_path() / "executors");
  }
  return folders;
}

Result<ExecutorFactory> find_executor(std::string_view name,
                                      const std::vector<std::string>& folders) {
  const std::string file = "libtenon-executor-" + std::string(name) + ".so";
  // A name is no path.
  const bool sane = valid_plugin_id(name);
  for (const std::string& folder : folders) {
    std::error_code error;
    const fs::path path = fs::path(folder) / file;
    if (sane && fs::exists(path, error)) return load_executor(path, std::string(name));
  }
  return not_found(executor_named(name) + " is not installed here: there is no " + file + " in " +
                   (folders.empty() ? "any folder" : join(folders)));
}

}  // namespace tenon
