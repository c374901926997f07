#include "core/isolation/looked_at.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/plugin/descriptor_check.h"

namespace tenon {
namespace {

bool has_any(const PluginFile& file, std::string_view interface) {
  return file.problem.ok() && std::ranges::any_of(file.stamp->plugins, [&](const PluginName& name) {
           return interface.empty() ? knows_interface(name.interface) : name.interface == interface;
         });
}

}  // namespace

LookedAtPlugins::LookedAtPlugins(PluginRegistry registry, const HostFacts& host)
    : registry_(std::move(registry)), examiner_(std::make_unique<LibraryExaminer>(host)) {
  registry_.only_look([examiner = examiner_.get()](const std::string& path, const std::string&) {
    examiner->look_at(std::span(&path, 1));
    return examiner->library(path);
  });
}

Result<LookedAtPlugins> LookedAtPlugins::open(const std::vector<std::string>& folders,
                                              const HostFacts& host) {
  TENON_ASSIGN_OR_RETURN(PluginRegistry registry,
                         PluginRegistry::open(PluginSearch::standard(folders)));
  return LookedAtPlugins(std::move(registry), host);
}

void LookedAtPlugins::look_at_all(std::string_view interface) {
  std::vector<std::string> paths;
  for (const PluginFile& file : registry_.files()) {
    if (has_any(file, interface)) paths.push_back(file.path);
  }
  examiner_->look_at(paths);
}

Status LookedAtPlugins::problem(const PluginFile& file) const {
  return copy(examiner_->library(file.path).status());
}

}  // namespace tenon
