#include "core/base/quote.h"
#include "core/model/published/reader.h"

namespace tenon::published {
namespace {

struct Method {
  std::string_view name;  // quant_method
  std::unique_ptr<Reader> (*make)(const JsonFields& config);
};
constexpr Method kMethods[] = {
    {"gptq", make_gptq},
    {"awq", make_awq},
    {"compressed-tensors", make_compressed_tensors},
    {"fp8", make_float8},
    {"fbgemm_fp8", make_float8},
    {"bitsandbytes", make_bitsandbytes},
    {"hqq", make_hqq},
    {"mxfp4", make_mxfp4},
};

std::string method_names() {
  std::string names;
  for (const Method& method : kMethods) {
    if (!names.empty()) names += &method == std::end(kMethods) - 1 ? " and " : ", ";
    names += method.name;
  }
  return names;
}

}  // namespace

void check_method_key(const JsonFields& config, std::string_view method) {
  const std::string own = config.text("method", method);
  if (own == method) return;
  config.faults().invalid(config.name("quant_method") + " is " + in_quotes(method, 80) +
                          " and 'method' is " + in_quotes(own, 80) +
                          "; expected one method – correct the one that is wrong");
}

std::unique_ptr<Reader> make_reader(const JsonFields& config) {
  std::string name = config.text("quant_method", "");
  // Files of before the key.
  if (name.empty() && (config.flag("load_in_4bit", false) || config.flag("load_in_8bit", false))) {
    name = "bitsandbytes";
  }
  for (const Method& method : kMethods) {
    if (method.name == name) return method.make(config);
  }
  config.faults().unsupported(config.name("quant_method") + " is " + in_quotes(name, 80) +
                              "; weights are read of " + method_names() +
                              "; open the checkpoint that was quantised from");
  return nullptr;
}

}  // namespace tenon::published
