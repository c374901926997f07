#include "core/chat/template_files.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/base/files/mapped_file.h"
#include "core/base/presence.h"
#include "core/base/quote.h"
#include "core/files/gguf_parts.h"
#include "core/files/git_lfs.h"
#include "core/jinja/json_values.h"

namespace tenon::chat {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMostTemplates = 64;

bool is_file(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

// A special token is named by its text, or by an object that holds it.
void take_special_tokens(const ordered_json& file, TemplateFiles& files) {
  for (const auto& [key, value] : file.items()) {
    if (!key.ends_with("_token")) continue;
    const ordered_json* text = &value;
    if (value.is_object() && value.contains("content")) text = &value["content"];
    if (text->is_string()) files.special_tokens[key] = text->get<std::string>();
  }
}

// "chat_template": a text, or a list of {"name": …, "template": …}.
Status take_templates(const ordered_json& config, const std::string& path, TemplateFiles& files) {
  if (!config.contains("chat_template") || config["chat_template"].is_null()) return Status();
  const ordered_json& found = config["chat_template"];
  const std::string where = path + " (chat_template)";
  if (found.is_string()) {
    files.templates["default"] = {found.get<std::string>(), where};
    return Status();
  }
  if (!found.is_array()) {
    return invalid_argument(where + " is neither a text nor a list of named templates");
  }
  for (const ordered_json& entry : found) {
    const bool is_named = entry.is_object() && entry.contains("name") &&
                          entry["name"].is_string() && entry.contains("template") &&
                          entry["template"].is_string();
    if (!is_named) {
      return invalid_argument(where + " has an entry without 'name' and 'template'");
    }
    const auto name = entry["name"].get<std::string>();
    files.templates[name] = {entry["template"].get<std::string>(), where + " " + in_quotes(name)};
  }
  return Status();
}

Result<ordered_json> read_json(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const std::string text, read_text_file(path));
  Result<ordered_json> document = parse_json_text(text);
  if (!document.ok()) return with_context(path, document.status());
  if (!document->is_object()) return invalid_argument(path + ": the document is no JSON object");
  return document;
}

Status read_jinja(const std::string& path, const std::string& name, TemplateFiles& files) {
  TENON_ASSIGN_OR_RETURN(std::string text, read_text_file(path));
  if (const Status status = check_no_git_lfs_pointer(text); !status.ok()) {
    return with_context(path, status);
  }
  files.templates[name] = {std::move(text), path};
  return Status();
}

Status read_additional(const std::string& folder, TemplateFiles& files) {
  std::error_code error;
  std::vector<std::filesystem::path> paths;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    if (at->path().extension() == ".jinja") paths.push_back(at->path());
  }
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    TENON_RETURN_IF_ERROR(read_jinja(path.string(), path.stem().string(), files));
  }
  return Status();
}

// A file of its own goes before what the configuration says.
Result<TemplateFiles> read_folder(const std::string& folder) {
  TemplateFiles files;
  const std::string config_path = folder + "/tokenizer_config.json";
  if (is_there(folder + "/special_tokens_map.json")) {
    TENON_ASSIGN_OR_RETURN(const ordered_json map, read_json(folder + "/special_tokens_map.json"));
    take_special_tokens(map, files);
  }
  if (is_there(config_path)) {
    TENON_ASSIGN_OR_RETURN(const ordered_json config, read_json(config_path));
    take_special_tokens(config, files);
    TENON_RETURN_IF_ERROR(take_templates(config, config_path, files));
  }
  const std::string json_path = folder + "/chat_template.json";
  if (is_there(json_path)) {
    TENON_ASSIGN_OR_RETURN(const ordered_json config, read_json(json_path));
    TENON_RETURN_IF_ERROR(take_templates(config, json_path, files));
  }
  TemplateFiles own;
  if (is_there(folder + "/chat_template.jinja")) {
    TENON_RETURN_IF_ERROR(read_jinja(folder + "/chat_template.jinja", "default", own));
  }
  TENON_RETURN_IF_ERROR(read_additional(folder + "/additional_chat_templates", own));
  if (!own.templates.empty()) files.templates = std::move(own.templates);
  return files;
}

Result<TemplateFiles> read_gguf(const std::string& path) {
  static constexpr std::string_view kKey = "tokenizer.chat_template";
  TENON_ASSIGN_OR_RETURN(const GgufParts files_of_model, GgufParts::open(path));
  const GgufFile* file = &files_of_model.file();
  TemplateFiles files;
  for (const auto& [key, value] : file->metadata()) {
    if (!key.starts_with(kKey) || !value.text()) continue;
    const std::string_view rest = std::string_view(key).substr(kKey.size());
    if (!rest.empty() && rest[0] != '.') continue;
    const std::string name = rest.empty() ? "default" : std::string(rest.substr(1));
    files.templates[name] = {std::string(*value.text()), path + " (" + one_line(key) + ")"};
  }
  const GgufValue* pieces = file->find("tokenizer.ggml.tokens");
  const auto texts = pieces == nullptr ? std::nullopt : pieces->texts();
  static constexpr std::pair<const char*, const char*> kTokens[] = {
      {"tokenizer.ggml.bos_token_id", "bos_token"},
      {"tokenizer.ggml.eos_token_id", "eos_token"},
      {"tokenizer.ggml.unknown_token_id", "unk_token"},
      {"tokenizer.ggml.padding_token_id", "pad_token"}};
  for (const auto& [key, name] : kTokens) {
    const GgufValue* id = file->find(key);
    const auto index = id == nullptr ? std::nullopt : id->integer();
    if (!texts || !index || *index < 0 || static_cast<uint64_t>(*index) >= texts->size()) continue;
    files.special_tokens[name] = std::string((*texts)[static_cast<size_t>(*index)]);
  }
  return files;
}

Result<TemplateFiles> read_files(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return not_found(path_in_quotes(path) + " does not exist");
  }
  return is_file(path) ? read_gguf(path) : read_folder(path);
}

}  // namespace

Result<std::map<std::string, std::string>> read_special_tokens(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(TemplateFiles files, read_files(path));
  return std::move(files.special_tokens);
}

Result<TemplateFiles> read_template_files(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(TemplateFiles files, read_files(path));
  if (files.templates.empty()) {
    return not_found(path_in_quotes(path) +
                     " has no chat template – expected chat_template.jinja, 'chat_template' in "
                     "tokenizer_config.json, or tokenizer.chat_template in a GGUF file – use plain "
                     "text, or a checkpoint that was trained for conversations");
  }
  if (files.templates.size() > kMostTemplates) {
    return unsupported(path_in_quotes(path) + " has " + std::to_string(files.templates.size()) +
                       " chat templates – at most " + std::to_string(kMostTemplates) +
                       " are supported");
  }
  return files;
}

}  // namespace tenon::chat
