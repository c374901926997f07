#include "tools/tenon/doctor/diagnosis.h"

#include <sys/resource.h>
#include <tenon/abi_generated.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "core/base/machine/cpu_features.h"
#include "core/base/machine/host_facts.h"
#include "core/base/machine/system_memory.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/executors/executor_search.h"
#include "core/isolation/looked_at.h"
#include "core/isolation/process.h"
#include "core/plugin/descriptor_check.h"
#include "core/plugin/registry.h"
#include "tools/tenon/process/case_process.h"
#include "tools/tenon/shell/places.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLittleMemory = uint64_t{1} << 30;
constexpr int kComposingSeconds = 30;
constexpr rlim_t kFewFiles = 256;  // a server has a socket a client

// Collects items of one group.
class Group {
 public:
  Group(std::vector<DiagnosedItem>& items, std::string name)
      : items_(items), name_(std::move(name)) {}
  void good(const std::string& name, const std::string& what) { add(Health::good, name, what); }
  void note(const std::string& name, const std::string& what) { add(Health::note, name, what); }
  void wrong(const std::string& name, const std::string& what) { add(Health::wrong, name, what); }

 private:
  void add(Health health, const std::string& name, const std::string& what) {
    std::string text = what;  // of several lines where several things are wrong
    std::replace(text.begin(), text.end(), '\n', ';');
    items_.push_back({name_, health, one_line(name), one_line(text, kMostPathBytes)});
  }
  std::vector<DiagnosedItem>& items_;
  const std::string name_;
};

void look_at_program(Group group) {
  group.good("version", "tenon " TENON_SDK_VERSION ", boundary " TENON_BOUNDARY_HASH);
  group.good("folder", program_folder());
}

void look_at_processor(Group group, const HostFacts& host) {
  group.good("processor", cpu_brand());
  const std::string isa(cpu_isa_name(host.cpu));
  const std::string kernels = "kernels of the instruction set " + isa;
  if (host.cpu.has_all(kCpuAvx2) || host.cpu.has_all(kCpuNeon)) {
    group.good("instruction set", kernels);
  } else {
    group.note("instruction set", kernels + ": plain code, which is several times slower");
  }
  group.good("cores", std::to_string(host.workers) + " can be used");
}

void look_at_memory(Group group) {
  const uint64_t bytes = available_memory_bytes();
  const std::string text = approximate_bytes(bytes) + " can be had now";
  if (bytes < kLittleMemory) {
    group.note("memory", text + ": enough for small models alone");
  } else {
    group.good("memory", text);
  }
  std::string modes;  // "always [madvise] never"
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  if (!std::getline(file, modes)) return;
  if (modes.find("[never]") != modes.npos) {
    group.note("huge pages", "the system gives none: large models run some percent slower");
  } else {
    group.good("huge pages", "the system gives them");
  }
}

void look_at_limits(Group group) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    const std::string text = std::to_string(files.rlim_cur) + " may be open at once";
    if (files.rlim_cur < kFewFiles) {
      group.note("files", text + ": few for a server – raise it (ulimit -n 4096)");
    } else {
      group.good("files", text);
    }
  }
  rlimit memory{};
  if (::getrlimit(RLIMIT_AS, &memory) == 0 && memory.rlim_cur != RLIM_INFINITY) {
    group.note("address space", "limited to " + approximate_bytes(memory.rlim_cur) +
                                    ", which weights, mapped files and K/V must share – "
                                    "ulimit -v unlimited lifts it");
  }
}

// Names of the executors that lie in the usual folders.
std::set<std::string> installed_executors() {
  constexpr std::string_view kHead = "libtenon-executor-", kTail = ".so";
  std::set<std::string> names;
  for (const std::string& folder : installed_executor_folders()) {
    std::error_code error;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      const std::string file = it->path().filename().string();
      if (file.size() <= kHead.size() + kTail.size()) continue;
      if (!file.starts_with(kHead) || !file.ends_with(kTail)) continue;
      names.insert(file.substr(kHead.size(), file.size() - kHead.size() - kTail.size()));
    }
  }
  return names;
}

void look_at_executors(Group group, const HostFacts& host) {
  group.good("cpu", "built in");
  group.good("ref", "built in: the scalar oracle");
  for (const std::string& name : installed_executors()) {
    const auto factory = find_executor(name, installed_executor_folders());
    if (!factory.ok()) {
      group.wrong(name, message_of(factory.status()));
      continue;
    }
    const auto made = (*factory)(host);
    if (made.ok()) {
      group.good(name, "installed, and has a device");
    } else {
      group.note(name, message_of(made.status()));
    }
  }
}

void look_at_plugin(Group& group, PluginRegistry& registry, const PluginName& name,
                    const HostFacts& host, std::set<std::string>& usable) {
  const std::string word(interface_word(name.interface));
  const std::string shown = word + "/" + name.id;
  const auto plugin = registry.find(name.interface, name.id);
  if (!plugin.ok()) {
    group.wrong(shown, message_of(plugin.status()));
  } else if (score_of(*plugin, host) == 0) {
    group.note(shown, "not usable here: " + std::string(plugin->descriptor->unavailable));
  } else {
    usable.insert(word);
    group.good(shown, plugin->library->path);
  }
}

void look_at_plugins(Group group, const DiagnosisRequest& request, const HostFacts& host) {
  auto plugins = LookedAtPlugins::open(request.plugin_path, host);
  if (!plugins.ok()) return group.wrong("search", message_of(plugins.status()));
  plugins->look_at_all();
  PluginRegistry& registry = plugins->registry();
  std::set<std::string> usable;
  for (const PluginName& name : registry.names()) {
    look_at_plugin(group, registry, name, host, usable);
  }
  for (const PluginFile& file : registry.files()) {
    if (file.problem.ok()) continue;
    if (file.stray) {
      group.note("file", message_of(file.problem));
    } else {
      group.wrong("file", message_of(file.problem));
    }
  }
  for (const std::string_view interface : known_interfaces()) {
    const std::string word(interface_word(interface));
    // A pipeline does without a drafter and a store, and without a state kernel where no layer
    // recurs.
    if (usable.contains(word) || word == "drafter" || word == "kv_store" || word == "state") {
      continue;
    }
    group.wrong(word,
                "no plugin of this interface can be used here – install Tenon's own, or name "
                "a folder with --plugin-path");
  }
}

void look_at_files(Group group) {
  const auto place = [&](const char* name, const Result<std::string>& path, bool needed) {
    if (!path.ok()) {
      needed ? group.wrong(name, message_of(path.status()))
             : group.note(name, message_of(path.status()));
      return;
    }
    std::error_code error;
    if (fs::exists(*path, error)) return group.good(name, *path);
    group.wrong(name, path_in_quotes(*path) + " does not exist – install Tenon again");
  };
  place("pipelines", llm::default_pipeline(), true);
  place("bundled model", bundled_model(), true);
  place("templates", template_folder(), false);
  place("isolation", find_guest_program(), false);
  const fs::path documents = fs::path(program_folder()).parent_path() / "share" / "doc" / "tenon";
  std::error_code error;
  if (fs::exists(documents / "README.md", error)) group.good("documents", documents.string());
}

// The program that a unit of systemd starts; empty if it names none by its full path.
std::string started_by(const fs::path& unit) {
  constexpr std::string_view kKey = "ExecStart=";
  std::ifstream file(unit);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kKey)) continue;
    std::string command = line.substr(kKey.size(), line.find(' ') - kKey.size());
    if (command.starts_with('/')) return command;
  }
  return {};
}

// A prefix may be moved, but its unit names the program where it was installed.
void look_at_unit(Group group) {
  const fs::path here = program_folder();
  const fs::path unit = here.parent_path() / "lib" / "systemd" / "system" / "tenon.service";
  const std::string starts = started_by(unit);
  if (starts.empty()) return;
  std::error_code error;
  if (fs::equivalent(starts, here / "tenon", error)) return group.good("systemd", unit.string());
  group.note("systemd", path_in_quotes(unit.string()) + " starts " + path_in_quotes(starts) +
                            ", which is not this program – install again with this prefix, or "
                            "set ExecStart by `systemctl edit tenon`");
}

// What a process says on standard error, without the program's name in front.
std::string said(const EndedProcess& ended) {
  constexpr std::string_view kName = "tenon: ";
  std::string text = ended.errors;
  if (const size_t at = text.find(kName); at != text.npos) text.erase(at, kName.size());
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

// Everything but loading weights, in a process of its own: composing loads plugins.
void look_at_default_pipeline(Group group, const DiagnosisRequest& request) {
  std::vector<std::string> command{"/proc/self/exe", "config", "check"};
  for (const std::string& folder : request.plugin_path) {
    command.insert(command.end(), {"--plugin-path", folder});
  }
  const auto ended = run_process(command, {.by_the_clock = kComposingSeconds});
  if (!ended.ok()) return group.wrong("default", message_of(ended.status()));
  switch (ended->how) {
    case EndedProcess::How::out_of_time:
      return group.wrong("default", "the process that was to compose it did not end within " +
                                        std::to_string(kComposingSeconds) +
                                        " s: a plugin hangs – leave out its folder");
    case EndedProcess::How::killed_by_signal:
      return group.wrong("default", "the process that was to compose it was ended by signal " +
                                        std::to_string(ended->number) + " (" +
                                        ::strsignal(ended->number) +
                                        "): a plugin's fault – leave out its folder");
    case EndedProcess::How::exited:
      break;
  }
  // "…/default.toml: good (0123456789abcdef)"
  const std::string& text = ended->output;
  const size_t open = text.rfind('('), close = text.rfind(')');
  if (ended->number == 0 && open != text.npos && close != text.npos && open < close) {
    group.good("default", "can be composed " + text.substr(open, close - open + 1));
  } else if (const std::string why = said(*ended); !why.empty()) {
    group.wrong("default", why);
  } else {
    group.wrong("default", "the process that was to compose it ended with status " +
                               std::to_string(ended->number) +
                               " and said nothing: a plugin's fault – leave out its folder");
  }
}

}  // namespace

std::string_view health_name(Health health) {
  constexpr std::string_view kNames[] = {"good", "note", "wrong"};
  return kNames[static_cast<size_t>(health)];
}

std::vector<DiagnosedItem> diagnose(const DiagnosisRequest& request) {
  std::vector<DiagnosedItem> items;
  const HostFacts host = host_facts();
  look_at_program({items, "program"});
  look_at_processor({items, "processor"}, host);
  look_at_memory({items, "memory"});
  look_at_limits({items, "limits"});
  look_at_executors({items, "executors"}, host);
  look_at_plugins({items, "plugins"}, request, host);
  look_at_files({items, "files"});
  look_at_unit({items, "service"});
  look_at_default_pipeline({items, "pipeline"}, request);
  return items;
}

}  // namespace tenon
