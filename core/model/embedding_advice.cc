#include "core/model/embedding_advice.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "core/base/files/mapped_file.h"
#include "core/base/presence.h"
#include "core/base/quote.h"
#include "core/files/gguf_parts.h"
#include "core/model/checkpoint/gguf_checkpoint.h"

namespace tenon {
namespace {

using nlohmann::json;

constexpr const char* kSay = " – say how with --pooling last, mean or first";

// Null where there is no such file.
Result<json> read_json(const std::string& path) {
  if (!is_there(path)) return json();
  TENON_ASSIGN_OR_RETURN(const std::string text, read_text_file(path));
  json parsed = json::parse(text, nullptr, false);
  if (parsed.is_discarded()) return invalid_argument(path_in_quotes(path) + " is no JSON");
  return parsed;
}

bool is_set(const json& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && found->is_boolean() && found->get<bool>();
}

Status read_pooling(const std::string& path, EmbeddingAdvice& out) {
  TENON_ASSIGN_OR_RETURN(const json config, read_json(path));
  if (!config.is_object()) return {};
  constexpr std::pair<const char*, const char*> kModes[] = {
      {"pooling_mode_lasttoken", "last"},
      {"pooling_mode_mean_tokens", "mean"},
      {"pooling_mode_cls_token", "first"},
  };
  std::vector<std::string> modes;
  for (const auto& [key, name] : kModes) {
    if (is_set(config, key)) modes.emplace_back(name);
  }
  for (const auto& [key, value] : config.items()) {
    const bool other =
        key.starts_with("pooling_mode_") && std::ranges::find(kModes, key, [](auto& mode) {
                                              return std::string(mode.first);
                                            }) == std::end(kModes);
    if (other && is_set(config, key.c_str())) {
      return unsupported(path_in_quotes(path) + " sets " + in_quotes(key) + ", which is not built" +
                         kSay);
    }
  }
  if (modes.size() > 1) {
    return unsupported(path_in_quotes(path) +
                       " sets several pooling modes side by side, which is " + "not built" + kSay);
  }
  if (!modes.empty()) out.pooling = modes.front();
  return {};
}

// [{"type": "sentence_transformers.models.Normalize", …}, …]
Status read_modules(const std::string& path, EmbeddingAdvice& out) {
  TENON_ASSIGN_OR_RETURN(const json modules, read_json(path));
  if (!modules.is_array()) return {};
  out.normalise = false;
  for (const json& module : modules) {
    const std::string type = module.is_object() ? module.value("type", "") : "";
    const std::string name = type.substr(type.rfind('.') + 1);
    if (name == "Normalize") out.normalise = true;
    if (name == "Normalize" || name == "Transformer" || name == "Pooling" || name.empty()) continue;
    return unsupported(path_in_quotes(path) + " has the module " + in_quotes(name) +
                       " behind the model, which is not built; there are Transformer, Pooling and "
                       "Normalize");
  }
  return {};
}

Result<EmbeddingAdvice> read_gguf(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const GgufParts files, GgufParts::open(path));
  const GgufFile& file = files.file();
  EmbeddingAdvice advice;
  const GgufValue* architecture = file.find("general.architecture");
  const auto name = architecture != nullptr ? architecture->text() : std::nullopt;
  if (!name) return advice;
  const GgufValue* value = file.find(std::string(*name) + ".pooling_type");
  if (value == nullptr || value->integer() == 0) return advice;
  constexpr const char* kTypes[] = {"", "mean", "first", "last"};
  const std::optional<int64_t> type = value->integer();
  if (!type || *type < 1 || *type > 3) {
    return unsupported(path_in_quotes(path) + " has the pooling_type " + value->describe() +
                       ", which is not built" + kSay);
  }
  advice.pooling = kTypes[*type];
  return advice;
}

}  // namespace

Result<EmbeddingAdvice> read_embedding_advice(const std::string& model_path) {
  if (is_model_file(model_path)) return read_gguf(model_path);
  EmbeddingAdvice advice;
  TENON_RETURN_IF_ERROR(read_modules(model_path + "/modules.json", advice));
  TENON_RETURN_IF_ERROR(read_pooling(model_path + "/1_Pooling/config.json", advice));
  return advice;
}

}  // namespace tenon
