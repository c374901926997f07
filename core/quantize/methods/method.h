// What a model is quantised to: the methods by name, and what each takes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/quantize/methods/gptq.h"
#include "core/quantize/methods/grid.h"

namespace tenon::quantize {

enum class Method : uint8_t { rtn, gptq, awq, nf4, int8, fp8 };
std::string_view method_name(Method method);
// "rtn, gptq, …" for messages.
std::string folder_method_names();

struct MethodOptions {
  Method method = Method::rtn;
  GridOptions grid = {};        // of rtn, gptq and awq
  GptqOptions gptq = {};        // of gptq
  bool second_version = false;  // of GPTQ's layout
  // Above 0: a budget for each weight, scales included, in place of grid.bits (rtn and gptq).
  double budget_bits = 0;
  std::map<std::string, uint32_t> bits_of = {};  // by stem; what the budget came to

  bool needs_text() const {
    return method == Method::gptq || method == Method::awq || budget_bits > 0;
  }
  // Of one matrix.
  GridOptions grid_of_matrix(const std::string& stem) const {
    GridOptions own = grid;
    if (const auto found = bits_of.find(stem); found != bits_of.end()) own.bits = found->second;
    return own;
  }
};

// Errors: unsupported, with every name that it is not.
Result<Method> method_named(std::string_view name);
// Errors: invalid_argument (bits or groups that the method has not).
Status check_method(const MethodOptions& options);
// Whether a matrix [n, k] can be stored; unsupported with `name` and the reason.
Status check_extents(const MethodOptions& options, const std::string& name, uint64_t n, uint64_t k);
// The object `quantization_config` of a config.json as JSON. `plain_modules` are matrices that stay
// as they are, without ".weight".
std::string quantization_config(const MethodOptions& options,
                                const std::vector<std::string>& plain_modules);

}  // namespace tenon::quantize
