// The files that a checkpoint's chat templates stand in.
#pragma once

#include <map>
#include <string>

#include "core/base/result.h"

namespace tenon::chat {

struct TemplateSource {
  std::string text;
  std::string where;  // for messages: a path, perhaps with a key
};

struct TemplateFiles {
  std::map<std::string, TemplateSource> templates;    // by name; the main one is "default"
  std::map<std::string, std::string> special_tokens;  // "bos_token" and others
};

// A folder or a GGUF file. Errors as ChatTemplate::load, but nothing is parsed.
Result<TemplateFiles> read_template_files(const std::string& path);
// Only the special tokens, for a template that comes from elsewhere. Errors: those of the files.
Result<std::map<std::string, std::string>> read_special_tokens(const std::string& path);

}  // namespace tenon::chat
