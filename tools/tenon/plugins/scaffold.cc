#include "tools/tenon/plugins/scaffold.h"

#include <tenon/abi_generated.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "core/base/files/mapped_file.h"
#include "core/base/files/new_file.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/plugin/settings.h"
#include "core/plugin/stamp.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;

using Values = std::vector<std::pair<std::string, std::string>>;

// An interface as templates know it.
struct Kind {
  std::string_view word;
  std::string_view header;
  std::string_view suffix;  // of the class; with any name in front no name of the boundary
};
constexpr Kind kKinds[] = {
    {"scheduler", "scheduler.h", "Scheduler"}, {"kv_cache", "kv_cache.h", "Cache"},
    {"attention", "attention.h", "Attention"}, {"state", "state.h", "States"},
    {"linear", "linear.h", "Linear"},          {"sampler", "sampler.h", "Sampler"},
    {"drafter", "drafter.h", "Drafter"},       {"kv_store", "extensions/kv_store.h", "Store"},
};

// A template, and the path that it becomes in the new folder; "" = the plugin's own name.
struct Piece {
  const char* from;
  const char* to;
};
constexpr Piece kPieces[] = {
    {"CMakeLists.txt.in", "CMakeLists.txt"},
    {"README.md.in", "README.md"},
    {"clang-format.in", ".clang-format"},
    {"ci.yml.in", ".github/workflows/build.yml"},
    {"run.cmake.in", "test/run.cmake"},
    {"pipeline.toml.in", "pipeline.toml"},
    {"plugin.cc.in", ""},
};

struct File {
  std::string path;  // in the new folder
  std::string text;
};

// "two_words" → "TwoWords"
std::string camel_case(std::string_view name) {
  std::string made;
  bool begins = true;
  for (const char c : name) {
    if (c != '_') made += begins ? static_cast<char>(std::toupper(c)) : c;
    begins = c == '_';
  }
  return made;
}

std::string with_dashes(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '.' || c == '_'; }, '-');
  return text;
}

Result<const Kind*> kind_of(const std::string& interface) {
  std::vector<std::string> words;
  for (const Kind& kind : kKinds) {
    if (kind.word == interface) return &kind;
    words.emplace_back(kind.word);
  }
  return invalid_argument("there is no interface " + in_quotes(interface) +
                          did_you_mean(interface, words) + " – expected one of " + join(words));
}

Status check_name(const std::string& id) {
  if (valid_plugin_id(id) && id.find('.') != id.npos) return {};
  return invalid_argument(
      in_quotes(id) +
      " is no name for a plugin – expected VENDOR.NAME, each a lower-case letter "
      "and then up to 31 of a-z, 0-9 and _, for example acme.mine");
}

Status check_folder(const fs::path& folder) {
  std::error_code error;
  const auto status = fs::symlink_status(folder, error);
  if (!fs::exists(status)) return {};
  if (!fs::is_directory(status)) {
    return invalid_argument(path_in_quotes(folder.string()) +
                            " is there and is no folder – name another one with --folder");
  }
  if (!fs::is_empty(folder, error)) {
    return invalid_argument("the folder " + path_in_quotes(folder.string()) +
                            " is not empty – name another one with --folder");
  }
  return {};
}

Values values_of(const ScaffoldRequest& request, const Kind& kind) {
  const size_t dot = request.id.find('.');
  const std::string name = request.id.substr(dot + 1);
  std::string version = TENON_SDK_VERSION;
  version.resize(version.rfind('.'));
  std::string project = request.id;
  std::replace(project.begin(), project.end(), '.', '_');
  std::string notes;
  if (kind.word == "state") {
    notes =
        "\nThe bundled model has no recurrent layers, so the build writes one of a single layer "
        "into\n"
        "`build/model`. Its weights are random: it speaks nonsense, but what it says is yours.\n";
  }
  return {{"ID", request.id},
          {"NAME", name},
          {"CLASS", camel_case(name) + std::string(kind.suffix)},
          {"TARGET", with_dashes(request.interface + "-" + request.id)},
          {"PROJECT", project},
          {"INTERFACE", request.interface},
          {"HEADER", std::string(kind.header)},
          {"VERSION", version},
          {"MODEL", quote_toml(request.model)},
          {"PREFIX", shell_word(request.prefix)},
          {"NOTES", notes}};
}

// A template of the interface's own goes before the one that all share.
Result<std::string> read_template(const ScaffoldRequest& request, const char* name) {
  std::error_code error;
  const fs::path own = fs::path(request.templates) / request.interface / name;
  if (fs::exists(own, error)) return read_text_file(own.string());
  return read_text_file((fs::path(request.templates) / "common" / name).string());
}

Result<std::vector<File>> make_files(const ScaffoldRequest& request, const Kind& kind) {
  const Values values = values_of(request, kind);
  std::vector<File> files;
  for (const Piece& piece : kPieces) {
    TENON_ASSIGN_OR_RETURN(const std::string text, read_template(request, piece.from));
    auto filled = fill_template(text, values);
    if (!filled.ok()) return with_context(piece.from, filled.status());
    const std::string own = request.id.substr(request.id.find('.') + 1) + ".cc";
    files.push_back({*piece.to == 0 ? own : piece.to, *std::move(filled)});
  }
  return files;
}

Status write_files(const fs::path& folder, const std::vector<File>& files) {
  for (const File& file : files) {
    const fs::path path = folder / file.path;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (error) {
      return failed("the folder " + path_in_quotes(path.parent_path().string()) +
                    " cannot be made: " + error.message() + " – name another one with --folder");
    }
    TENON_RETURN_IF_ERROR(write_file(path.string(), {file.text}));
  }
  return {};
}

}  // namespace

Result<std::string> fill_template(const std::string& text, const Values& values) {
  std::string made;
  for (size_t at = 0; at < text.size();) {
    const size_t open = text.find('@', at);
    made += text.substr(at, open - at);
    if (open == text.npos) break;
    size_t end = open + 1;
    while (end < text.size() && text[end] >= 'A' && text[end] <= 'Z') ++end;
    if (end == open + 1 || end == text.size() || text[end] != '@') {  // an ordinary '@'
      made += '@';
      at = open + 1;
      continue;
    }
    const std::string key = text.substr(open + 1, end - open - 1);
    const auto found = std::find_if(values.begin(), values.end(),
                                    [&](const auto& value) { return value.first == key; });
    if (found == values.end()) {
      return internal("the template asks for @" + key + "@, which nobody fills in");
    }
    made += found->second;
    at = end + 1;
  }
  return made;
}

Result<Scaffold> write_scaffold(const ScaffoldRequest& request) {
  TENON_ASSIGN_OR_RETURN(const Kind* kind, kind_of(request.interface));
  TENON_RETURN_IF_ERROR(check_name(request.id));
  const std::string name = request.id.substr(request.id.find('.') + 1);
  fs::path folder = request.folder.empty() ? name : request.folder;
  if (folder.filename().empty()) folder = folder.parent_path();  // "mine/"
  TENON_RETURN_IF_ERROR(check_folder(folder));
  TENON_ASSIGN_OR_RETURN(const std::vector<File> files, make_files(request, *kind));
  // Next to its place until it is whole: nobody finds half of it.
  const fs::path unfinished = folder.string() + "." + std::to_string(::getpid()) + ".partial";
  std::error_code error;
  Status status = write_files(unfinished, files);
  if (status.ok()) {
    fs::rename(unfinished, folder, error);
    if (error) {
      status = failed("the folder " + path_in_quotes(folder.string()) +
                      " cannot be put in its place: " + error.message());
    }
  }
  if (!status.ok()) {
    fs::remove_all(unfinished, error);
    return status;
  }
  Scaffold made{folder.string(), {}};
  for (const File& file : files) made.files.push_back(file.path);
  return made;
}

}  // namespace tenon
