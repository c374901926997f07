#include "core/quantize/methods/method.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/quote.h"
#include "core/quantize/blocks/blocks.h"

namespace tenon::quantize {
namespace {

struct NamedMethod {
  std::string_view name;
  Method method;
};
constexpr NamedMethod kMethods[] = {{"rtn", Method::rtn},   {"gptq", Method::gptq},
                                    {"awq", Method::awq},   {"nf4", Method::nf4},
                                    {"int8", Method::int8}, {"fp8", Method::fp8}};

using nlohmann::ordered_json;

int64_t group_size(const GridOptions& grid) {
  return grid.group == 0 ? -1 : static_cast<int64_t>(grid.group);
}

// As a pattern: those that are no letters stand for themselves.
std::string pattern_of(const std::string& stem) {
  std::string out = "+:^";
  for (const char c : stem) {
    if (c == '.') out += '\\';
    out += c;
  }
  return out + "$";
}

// What most matrices have.
uint32_t usual_bits(const MethodOptions& options) {
  std::map<uint32_t, size_t> counts;
  for (const auto& [stem, bits] : options.bits_of) ++counts[bits];
  if (counts.empty()) return options.grid.bits;
  return std::ranges::max_element(counts, {}, [](const auto& count) { return count.second; })
      ->first;
}

ordered_json gptq_config(const MethodOptions& options) {
  ordered_json out{{"quant_method", "gptq"},
                   {"bits", usual_bits(options)},
                   {"group_size", group_size(options.grid)},
                   {"desc_act", options.method == Method::gptq && options.gptq.act_order},
                   {"sym", options.grid.symmetric},
                   {"lm_head", false},
                   {"damp_percent", options.gptq.damping},
                   {"true_sequential", options.method == Method::gptq},
                   {"checkpoint_format", options.second_version ? "gptq_v2" : "gptq"},
                   {"meta", {{"quantizer", {"tenon"}}}}};
  for (const auto& [stem, bits] : options.bits_of) {
    if (bits != out["bits"]) out["dynamic"][pattern_of(stem)] = {{"bits", bits}};
  }
  return out;
}

ordered_json awq_config(const MethodOptions& options,
                        const std::vector<std::string>& plain_modules) {
  ordered_json out{{"quant_method", "awq"},
                   {"bits", options.grid.bits},
                   {"group_size", group_size(options.grid)},
                   {"version", "gemm"},
                   {"zero_point", true}};
  out["modules_to_not_convert"] =
      plain_modules.empty() ? ordered_json(nullptr) : ordered_json(plain_modules);
  return out;
}

ordered_json nf4_config(const std::vector<std::string>& plain_modules) {
  return {{"quant_method", "bitsandbytes"},
          {"load_in_4bit", true},
          {"load_in_8bit", false},
          {"bnb_4bit_quant_type", "nf4"},
          {"bnb_4bit_use_double_quant", false},
          {"bnb_4bit_compute_dtype", "bfloat16"},
          {"bnb_4bit_quant_storage", "uint8"},
          {"llm_int8_skip_modules", plain_modules}};
}

// Weights with a scale a row, activations with one a token, found when they are there.
ordered_json compressed_config(bool integers, const std::vector<std::string>& plain_modules) {
  const auto scheme = [&](const char* strategy, bool dynamic) {
    return ordered_json{{"num_bits", 8},
                        {"type", integers ? "int" : "float"},
                        {"symmetric", true},
                        {"strategy", strategy},
                        {"dynamic", dynamic},
                        {"group_size", nullptr},
                        {"block_structure", nullptr}};
  };
  return {{"quant_method", "compressed-tensors"},
          {"format", integers ? "int-quantized" : "float-quantized"},
          {"quantization_status", "compressed"},
          {"ignore", plain_modules},
          {"config_groups",
           {{"group_0",
             {{"targets", {"Linear"}},
              {"weights", scheme("channel", false)},
              {"input_activations", scheme("token", true)},
              {"output_activations", nullptr}}}}}};
}

bool has_groups(Method method) {
  return method == Method::rtn || method == Method::gptq || method == Method::awq;
}

}  // namespace

std::string_view method_name(Method method) {
  return std::ranges::find(kMethods, method, &NamedMethod::method)->name;
}

std::string folder_method_names() {
  std::string names;
  for (const NamedMethod& each : kMethods) {
    names += (names.empty() ? "" : ", ") + std::string(each.name);
  }
  return names;
}

Result<Method> method_named(std::string_view name) {
  const auto* found = std::ranges::find(kMethods, name, &NamedMethod::name);
  if (found != std::end(kMethods)) return found->method;
  if (find_block_encoder(name) != nullptr) {
    return unsupported(std::string(name) +
                       " is a format of GGUF files; expected an OUT that ends in .gguf");
  }
  return unsupported("the method " + in_quotes(name, kMostValueBytes) +
                     " is not known; a folder is written with " + folder_method_names());
}

Status check_method(const MethodOptions& options) {
  const GridOptions& grid = options.grid;
  const std::string name(method_name(options.method));
  if (!has_groups(options.method)) return {};
  if (options.budget_bits > 0 && options.method == Method::awq) {
    return invalid_argument(
        "awq has 4 bits; a budget is spent by rtn or gptq – choose one of them");
  }
  if (grid.bits != 2 && grid.bits != 3 && grid.bits != 4 && grid.bits != 8) {
    return invalid_argument(std::to_string(grid.bits) + " bits; " + name +
                            " is written with 2, 3, 4 or 8 – choose one of them");
  }
  if (grid.group != 0 && grid.group != 32 && grid.group != 64 && grid.group != 128) {
    return invalid_argument("groups of " + std::to_string(grid.group) + "; " + name +
                            " is written with 32, 64, 128 or -1, a whole row – choose one of them");
  }
  if (options.method == Method::awq && (grid.bits != 4 || grid.symmetric)) {
    return invalid_argument(
        "awq has 4 bits and zero points in the layout that others read; leave --bits and "
        "--symmetric out, or choose rtn or gptq");
  }
  return {};
}

Status check_extents(const MethodOptions& options, const std::string& name, uint64_t n,
                     uint64_t k) {
  const auto refuse_matrix = [&](const std::string& expected) {
    return unsupported("tensor " + in_quotes(name) + " is [" + std::to_string(n) + ", " +
                       std::to_string(k) + "]; " + std::string(method_name(options.method)) +
                       " needs " + expected + " – choose another method or group");
  };
  if (k % 32 != 0) return refuse_matrix("columns in whole 32");
  if (options.method == Method::nf4 && n * k % 64 != 0) return refuse_matrix("values in whole 64");
  if (!has_groups(options.method)) return {};
  const uint64_t group = options.grid.group_of(k);
  if (k % group != 0) return refuse_matrix("columns in whole groups of " + std::to_string(group));
  if (n * options.grid.bits % 32 != 0) {
    return refuse_matrix("zero points that fill words of 32 bits: rows in whole " +
                         std::to_string(options.grid.bits == 3 ? 32 : 32 / options.grid.bits));
  }
  return {};
}

std::string quantization_config(const MethodOptions& options,
                                const std::vector<std::string>& plain_modules) {
  switch (options.method) {
    case Method::rtn:
    case Method::gptq:
      break;
    case Method::awq:
      return awq_config(options, plain_modules).dump();
    case Method::nf4:
      return nf4_config(plain_modules).dump();
    case Method::int8:
      return compressed_config(true, plain_modules).dump();
    case Method::fp8:
      return compressed_config(false, plain_modules).dump();
  }
  return gptq_config(options).dump();
}

}  // namespace tenon::quantize
