// `tenon plugins build`: a plugin from its sources, without a build system.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/plugin/stamp.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/process/case_process.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/shell/flags.h"
#include "tools/tenon/shell/places.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr double kCompilerSeconds = 1800;

struct BuildFlags {
  std::vector<std::string> sources;
  std::string out;  // empty = by what it holds, in build/plugins
  std::string compiler;
  std::vector<std::string> more;  // for the compiler, after ours
};

// The file of a command's name, as a shell finds it; empty when there is none.
std::string find_program(const std::string& name) {
  if (name.find('/') != name.npos) return ::access(name.c_str(), X_OK) == 0 ? name : "";
  const char* path = std::getenv("PATH");
  for (const std::string_view folder : split(path == nullptr ? "" : path, ':')) {
    std::string file = std::string(folder) + "/" + name;
    if (!folder.empty() && ::access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

// The compiler with what comes before its arguments: CXX may be "ccache g++".
Result<Words> find_compiler(const std::string& wanted) {
  const char* environment = std::getenv("CXX");
  const std::string named = !wanted.empty() ? wanted : environment == nullptr ? "" : environment;
  Words words;
  for (const std::string_view word : split(named, ' ')) {
    if (!word.empty()) words.emplace_back(word);
  }
  if (!words.empty()) {
    const std::string file = find_program(words.front());
    if (file.empty()) {
      return not_found("there is no compiler " + in_quotes(words.front()) + ", which " +
                       (wanted.empty() ? "the variable CXX" : "--compiler") +
                       " names – expected a program such as g++ or clang++");
    }
    words.front() = file;
    return words;
  }
  for (const char* name : {"c++", "g++", "clang++"}) {
    if (const std::string file = find_program(name); !file.empty()) return Words{file};
  }
  return not_found(
      "there is no C++ compiler: neither c++ nor g++ nor clang++ is in PATH – install one (on "
      "Debian `apt-get install g++`), or name one with --compiler");
}

// Before the sources are tried: a compiler of long ago says a hundred other things about them.
Status check_compiler(Words command) {
  const std::string name = in_quotes(command.back());
  command.insert(command.end(), {"-std=c++20", "-fsyntax-only", "-x", "c++", "/dev/null"});
  TENON_ASSIGN_OR_RETURN(const EndedProcess ended,
                         run_process(command, {.by_the_clock = kCompilerSeconds}));
  if (ended.how == EndedProcess::How::exited && ended.number == 0) return {};
  return unsupported("the compiler " + name +
                     " does not take -std=c++20: " + one_line(trim(ended.errors), 300) +
                     " – expected g++ 12 or clang 14 at least: name another with --compiler");
}

Status check_sources(const BuildFlags& flags) {
  for (const std::string& source : flags.sources) {
    std::error_code error;
    if (fs::is_regular_file(source, error)) continue;
    return not_found("there is no file " + path_in_quotes(source) +
                     " – expected a plugin's source, such as `tenon plugins new` writes");
  }
  return {};
}

// The flags that tenon_add_plugin of the CMake package gives, too.
Words compiler_call(Words compiler, const SdkPlaces& sdk, const BuildFlags& flags,
                    const std::string& out) {
  Words made = std::move(compiler);
  made.insert(made.end(),
              {"-std=c++20", "-O2", "-DNDEBUG", "-fPIC", "-shared", "-fvisibility=hidden",
               "-fvisibility-inlines-hidden", "-ffp-contract=off"});
  for (const std::string& folder : sdk.includes) made.push_back("-I" + folder);
  made.insert(made.end(), flags.more.begin(), flags.more.end());
  made.insert(made.end(), flags.sources.begin(), flags.sources.end());
  made.insert(made.end(), {sdk.library, "-Wl,--version-script=" + sdk.exports, "-Wl,-z,nodelete",
                           "-Wl,-z,now", "-Wl,-z,relro", "-Wl,-z,defs", "-o", out});
  return made;
}

// As the CMake files of `tenon plugins new` call it: libtenon-scheduler-acme-mine.so.
std::string usual_name(const PluginName& plugin) {
  std::string name = std::string(interface_word(plugin.interface)) + "-" + plugin.id;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '.' || c == '_'; }, '-');
  return "build/plugins/libtenon-" + name + ".so";
}

Status compile(const Words& command) {
  TENON_ASSIGN_OR_RETURN(const EndedProcess ended,
                         run_process(command, {.by_the_clock = kCompilerSeconds}));
  // What a compiler says about somebody's own source is shown as it says it.
  std::fputs(ended.errors.c_str(), stderr);
  if (ended.how == EndedProcess::How::exited && ended.number == 0) return {};
  return failed("the compiler " + in_quotes(command.front()) + " ended with " +
                (ended.how == EndedProcess::How::exited
                     ? "status " + std::to_string(ended.number)
                     : std::string("a signal, or took too long")) +
                " – what it said stands above; nothing was written");
}

// A file that is there until it is renamed to its final name.
struct PartFile {
  std::string path;
  ~PartFile() {
    std::error_code error;
    if (!path.empty()) fs::remove(path, error);
  }
};

Status move_part(PartFile& part, const std::string& out) {
  std::error_code error;
  if (const fs::path folder = fs::path(out).parent_path(); !folder.empty()) {
    fs::create_directories(folder, error);
  }
  if (!error) fs::rename(part.path, out, error);
  if (error) return failed("cannot write " + path_in_quotes(out) + ": " + error.message());
  part.path.clear();
  return {};
}

Status build_plugin(const BuildFlags& flags) {
  TENON_RETURN_IF_ERROR(check_sources(flags));
  TENON_ASSIGN_OR_RETURN(const SdkPlaces sdk, sdk_places());
  TENON_ASSIGN_OR_RETURN(const Words compiler, find_compiler(flags.compiler));
  TENON_RETURN_IF_ERROR(check_compiler(compiler));
  const std::string folder = fs::path(flags.out).parent_path().string();
  PartFile part{(folder.empty() ? "." : folder) + "/.tenon-build-" + std::to_string(::getpid()) +
                ".so"};
  std::error_code error;
  if (!folder.empty()) fs::create_directories(folder, error);
  TENON_RETURN_IF_ERROR(compile(compiler_call(compiler, sdk, flags, part.path)));
  TENON_ASSIGN_OR_RETURN(const PluginStamp stamp, read_stamp(part.path));
  TENON_RETURN_IF_ERROR(check_stamp(stamp, host_stamp(), "what was built"));
  if (stamp.plugins.empty()) return failed("the library holds no plugin");
  const std::string out = flags.out.empty() ? usual_name(stamp.plugins.front()) : flags.out;
  TENON_RETURN_IF_ERROR(move_part(part, out));
  putf("wrote %s\n", one_line(out, kMostPathBytes).c_str());
  for (const PluginName& plugin : stamp.plugins) {
    putf("  %s %s\n", std::string(interface_word(plugin.interface)).c_str(), plugin.id.c_str());
  }
  return {};
}

}  // namespace

void add_plugins_build(Command plugins, Action& action) {
  auto flags = std::make_shared<BuildFlags>();
  Command command =
      plugins.add_subcommand("build", "Compile a plugin's sources into a library, without CMake");
  command.add_option("source", flags->sources, "the plugin's sources, C++").required();
  add_text(command, "--output,-o", flags->out,
           "file to write (default: build/plugins/libtenon-INTERFACE-ID.so)");
  add_text(command, "--compiler", flags->compiler,
           "C++ compiler (default: the variable CXX, else c++, g++ or clang++)");
  add_texts(command, "--flag", flags->more,
            "for the compiler, such as -mavx2 or -Wall; may be repeated");
  command.callback([flags, &action] {
    action = [flags] {
      const Status status = build_plugin(*flags);
      return status.ok() ? 0 : report_failure(status);
    };
  });
}

}  // namespace tenon
