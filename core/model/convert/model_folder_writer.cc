#include "core/model/convert/model_folder_writer.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/base/files/mapped_file.h"
#include "core/base/files/new_file.h"
#include "core/base/presence.h"
#include "core/base/quote.h"
#include "core/model/config/json_fields.h"
#include "core/model/tensors/tensor_values.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kTokenizerFiles[] = {
    "tokenizer.json",        "tokenizer.model",         "vocab.json",        "merges.txt",
    "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja"};

}  // namespace

std::string config_text(std::string_view json, DType dtype) {
  ordered_json out = in_order(json);
  out.erase("dtype");
  out["torch_dtype"] = dtype == DType::f32   ? "float32"
                       : dtype == DType::f16 ? "float16"
                                             : "bfloat16";
  return out.dump(1) + "\n";
}

Status check_float_type(DType dtype) {
  if (is_plain_type(dtype)) return {};
  return invalid_argument("weights of type " + in_quotes(dtype_name(dtype)) +
                          " cannot be made; there are f32, f16 and bf16");
}

Status create_model_folder(const std::string& folder) {
  std::error_code fault;
  fs::create_directories(folder, fault);
  if (fault || !fs::is_directory(folder, fault)) {
    return failed("cannot create the folder " + path_in_quotes(folder) + ": " + fault.message());
  }
  for (const char* name : {"config.json", "model.safetensors", "model.safetensors.index.json"}) {
    if (!is_there((fs::path(folder) / name).string())) continue;
    return invalid_argument(path_in_quotes(folder) + " already holds a model (" + name +
                            "); choose another folder, or remove it first");
  }
  return {};
}

Status copy_if_present(const std::string& from, const std::string& to, const std::string& name) {
  const std::string source = (fs::path(from) / name).string();
  if (!is_there(source)) return {};
  TENON_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(source));
  const std::string_view content(reinterpret_cast<const char*>(file.bytes().data()),
                                 file.bytes().size());
  return write_file((fs::path(to) / name).string(), {content});
}

Status copy_tokenizer(const std::string& from, const std::string& to) {
  const bool there = is_there(from + "/tokenizer.json") || is_there(from + "/tokenizer.model") ||
                     is_there(from + "/vocab.json");
  if (!there) {
    return not_found(in_quotes(from) +
                     " has no tokenizer; expected tokenizer.json, tokenizer.model or vocab.json");
  }
  for (const char* name : kTokenizerFiles) TENON_RETURN_IF_ERROR(copy_if_present(from, to, name));
  return {};
}

std::span<const char* const> model_folder_files() {
  static const std::vector<const char*> kFiles = [] {
    std::vector<const char*> all(std::begin(kTokenizerFiles), std::end(kTokenizerFiles));
    all.insert(all.end(), {"config.json", "generation_config.json", "model.safetensors"});
    return all;
  }();
  return kFiles;
}

}  // namespace tenon
