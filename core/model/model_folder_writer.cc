#include "core/model/model_folder_writer.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace tenon {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

}  // namespace

std::string config_text(std::string_view json, DType dtype) {
  ordered_json out = ordered_json::parse(json, nullptr, false);
  out.erase("dtype");
  out["torch_dtype"] = dtype == DType::f32   ? "float32"
                       : dtype == DType::f16 ? "float16"
                                             : "bfloat16";
  return out.dump(1) + "\n";
}

Status check_float_type(DType dtype) {
  if (dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16) return {};
  return invalid_argument("weights of type '" + std::string(dtype_name(dtype)) +
                          "' cannot be made; there are f32, f16 and bf16");
}

Status create_model_folder(const std::string& folder) {
  std::error_code fault;
  fs::create_directories(folder, fault);
  if (fault || !fs::is_directory(folder, fault)) {
    return failed("cannot create the folder '" + folder + "': " + fault.message());
  }
  for (const char* name : {"config.json", "model.safetensors", "model.safetensors.index.json"}) {
    if (!fs::exists(fs::path(folder) / name, fault)) continue;
    return invalid_argument("'" + folder + "' already holds a model (" + name +
                            "); choose another folder, or remove it first");
  }
  return {};
}

Status write_text_file(const std::string& path, std::string_view text) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  out.flush();
  return out ? Status() : failed("cannot write '" + path + "'; is there room, and permission?");
}

Status copy_if_present(const std::string& from, const std::string& to, const std::string& name) {
  std::error_code fault;
  const fs::path source = fs::path(from) / name;
  if (!fs::exists(source, fault)) return {};
  fs::copy_file(source, fs::path(to) / name, fs::copy_options::overwrite_existing, fault);
  if (!fault) return {};
  return failed("cannot copy '" + source.string() + "' to '" + to + "': " + fault.message());
}

Status copy_tokenizer(const std::string& from, const std::string& to) {
  std::error_code fault;
  const fs::path folder(from);
  const bool there = fs::exists(folder / "tokenizer.json", fault) ||
                     fs::exists(folder / "tokenizer.model", fault) ||
                     fs::exists(folder / "vocab.json", fault);
  if (!there) {
    return not_found("'" + from +
                     "' has no tokenizer; expected tokenizer.json, tokenizer.model or vocab.json");
  }
  for (const char* name :
       {"tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt", "tokenizer_config.json",
        "special_tokens_map.json", "added_tokens.json", "chat_template.jinja"}) {
    TENON_RETURN_IF_ERROR(copy_if_present(from, to, name));
  }
  return {};
}

}  // namespace tenon
