#include "core/config/models_file.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "core/base/files/mapped_file.h"
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/config/composition.h"
#include "core/config/toml_reader.h"

namespace tenon {
namespace {

constexpr int64_t kFormat = 1;
constexpr int64_t kMostLoaded = 1024;
constexpr int64_t kMostAdapters = 256;
constexpr std::string_view kEntry = "server.models.";
constexpr std::array<std::string_view, 6> kServerKeys = {"memory",    "max_loaded", "idle_unload",
                                                         "load_wait", "adapters",   "max_adapters"};

class ModelsReader {
 public:
  ModelsReader(std::string name, std::string folder)
      : name_(std::move(name)), folder_(std::move(folder)) {}

  Result<ModelsFile> read(const FlatToml& flat) {
    for (const FlatToml::Table& table : flat.tables) {
      if (is_entry(table.key)) entries_[number_of(table.key)].origin = table.origin;
      if (table.key.find('.') == std::string::npos && table.key != "server") unknown(table);
    }
    bool has_format = false;
    for (const Setting& setting : flat.values) {
      if (setting.key.starts_with(kEntry)) {
        read_of_entry(setting);
      } else if (setting.key == "format") {
        has_format = true;
        check_format(setting);
      } else if (setting.key.starts_with("server.")) {
        read_of_server(setting);
      } else if (setting.key.find('.') == std::string::npos) {
        error(setting.origin, in_quotes(setting.key) +
                                  " is no key of a list of models; expected format and [server]");
      }
    }
    if (!has_format) errors_.push_back(name_ + ": it has no 'format' – begin it with format = 1");
    take_entries();
    if (!errors_.empty()) return invalid_argument(join(errors_, "\n"));
    return std::move(file_);
  }

 private:
  struct Entry {
    ListedModel model;
    Origin origin;
  };

  // "server.models.3", of the table itself
  static bool is_entry(std::string_view key) {
    return key.starts_with(kEntry) && key.find('.', kEntry.size()) == key.npos;
  }
  static size_t number_of(std::string_view key) {
    return static_cast<size_t>(std::atol(std::string(key.substr(kEntry.size())).c_str()));
  }

  void unknown(const FlatToml::Table& table) {
    error(table.origin, "[" + table.key +
                            "] is no table of a list of models; a pipeline's tables belong into an "
                            "entry of [[server.models]], or into a file that it names");
  }

  void check_format(const Setting& setting) {
    const auto* number = std::get_if<int64_t>(&setting.value);
    if (number == nullptr || *number != kFormat) {
      error(setting.origin, "format is " + describe(setting.value) + "; this program reads 1");
    }
  }

  void read_of_server(const Setting& setting) {
    const std::string key = setting.key.substr(std::string_view("server.").size());
    if (key == "memory") {
      const auto* text = std::get_if<std::string>(&setting.value);
      const auto bytes = text == nullptr ? std::nullopt : parse_bytes(*text);
      if (!bytes || *bytes <= 0) return expect(setting, "a size such as \"24GiB\"");
      file_.memory_bytes = static_cast<uint64_t>(*bytes);
    } else if (key == "max_loaded") {
      const auto* number = std::get_if<int64_t>(&setting.value);
      const bool is_fine = number != nullptr && *number >= 1 && *number <= kMostLoaded;
      if (!is_fine) return expect(setting, "a whole number from 1 to 1024");
      file_.max_loaded = static_cast<uint32_t>(*number);
    } else if (key == "adapters") {
      std::string path;
      if (text(setting, path)) file_.adapters = from_folder(path);
    } else if (key == "max_adapters") {
      const auto* number = std::get_if<int64_t>(&setting.value);
      const bool is_fine = number != nullptr && *number >= 1 && *number <= kMostAdapters;
      if (!is_fine) return expect(setting, "a whole number from 1 to 256");
      file_.max_adapters = static_cast<uint32_t>(*number);
    } else if (key == "idle_unload") {
      file_.idle_unload_ns = duration(setting);
    } else if (key == "load_wait") {
      file_.load_wait_ns = duration(setting);
    } else {
      std::vector<std::string> known(kServerKeys.begin(), kServerKeys.end());
      error(setting.origin, in_quotes(key) + " is no key of [server]" + did_you_mean(key, known) +
                                "; expected " + join(known) + " and [[server.models]]");
    }
  }

  void read_of_entry(const Setting& setting) {
    const size_t dot = setting.key.find('.', kEntry.size());
    if (dot == std::string::npos) {
      return error(setting.origin, "server.models is a list of tables; expected [[server.models]]");
    }
    ListedModel& model = entries_[number_of(setting.key)].model;
    const std::string key = setting.key.substr(dot + 1);
    if (key == "name") {
      const bool is_text = text(setting, model.name);
      if (is_text && has_control(model.name)) {
        expect(setting, "text without line ends and other control characters");
      }
    } else if (key == "pipeline") {
      std::string path;
      if (text(setting, path)) model.pipeline = from_folder(path);
    } else if (key == "chat_template") {
      std::string path;
      if (text(setting, path)) model.chat_template = from_folder(path);
    } else if (key == "idle_unload") {
      model.idle_unload_ns = duration(setting);
    } else if (key == "keep") {
      const auto* keep = std::get_if<bool>(&setting.value);
      if (keep == nullptr) return expect(setting, "true or false");
      model.keep = *keep;
    } else {
      model.settings.push_back(
          {key == "model" ? "model.path" : key, setting.value, setting.origin});
    }
  }

  void take_entries() {
    std::map<std::string, Origin> names;
    for (auto& [number, entry] : entries_) {
      ListedModel& model = entry.model;
      model.origin = entry.origin;
      if (model.name.empty()) {
        error(entry.origin, "the model has no 'name' that requests could ask for");
      } else if (!names.emplace(model.name, entry.origin).second) {
        error(entry.origin, "two models have the name " + in_quotes(model.name));
      }
      if (model.keep && model.idle_unload_ns.value_or(0) > 0) {
        error(entry.origin, in_quotes(model.name) +
                                " is kept and unloaded when idle – leave 'keep' or "
                                "'idle_unload' out");
      }
      resolve_paths(model.settings, folder_);
      file_.models.push_back(std::move(model));
    }
    if (entries_.empty()) errors_.push_back(name_ + ": it lists no model in [[server.models]]");
  }

  bool text(const Setting& setting, std::string& out) {
    const auto* value = std::get_if<std::string>(&setting.value);
    if (value == nullptr || value->empty()) {
      expect(setting, "text in quotes");
      return false;
    }
    out = *value;
    return true;
  }
  // Names stand in lines that programs read, such as the one with the server's address.
  static bool has_control(std::string_view text) {
    return std::ranges::any_of(text, [](unsigned char c) { return c < ' ' || c == 0x7F; });
  }
  // Nanoseconds; 0 = never.
  std::optional<int64_t> duration(const Setting& setting) {
    const auto* text = std::get_if<std::string>(&setting.value);
    if (text != nullptr && *text == "never") return 0;
    const auto parsed = text == nullptr ? std::nullopt : parse_duration_ns(*text);
    if (parsed && *parsed > 0) return parsed;
    expect(setting, "a time such as \"10min\", or \"never\"");
    return std::nullopt;
  }
  std::string from_folder(const std::string& path) const {
    return (std::filesystem::path(folder_) / path).lexically_normal().string();
  }

  void expect(const Setting& setting, const std::string& what) {
    const std::string key = setting.key.substr(setting.key.rfind('.') + 1);
    error(setting.origin, key + " is " + describe(setting.value) + "; expected " + what);
  }
  void error(const Origin& origin, const std::string& message) {
    errors_.push_back(origin.text() + ": " + message);
  }

  const std::string name_, folder_;
  std::map<size_t, Entry> entries_;  // by their place in the file
  ModelsFile file_;
  std::vector<std::string> errors_;
};

}  // namespace

Result<ModelsFile> parse_models_file(std::string_view text, const std::string& name,
                                     const std::string& folder) {
  TENON_ASSIGN_OR_RETURN(const FlatToml flat, read_toml(text, name));
  return ModelsReader(name, folder).read(flat);
}

Result<ModelsFile> load_models_file(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const std::string text, read_text_file(path, kLargestConfigBytes));
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(path, error);
  return parse_models_file(text, path, whole.parent_path().string());
}

}  // namespace tenon
