#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/model/published/reader.h"

// Every method: its quant_method and the function that makes its reader from the config, whose
// faults it adds to. The function stands in the reader's own file.
#define TENON_METHODS(METHOD)                           \
  METHOD("gptq", make_gptq)                             \
  METHOD("awq", make_awq)                               \
  METHOD("compressed-tensors", make_compressed_tensors) \
  METHOD("fp8", make_float8)                            \
  METHOD("fbgemm_fp8", make_float8)                     \
  METHOD("bitsandbytes", make_bitsandbytes)             \
  METHOD("hqq", make_hqq)                               \
  METHOD("mxfp4", make_mxfp4)                           \
  METHOD("modelopt", make_modelopt)                     \
  METHOD("auto-round", make_auto_round)

namespace tenon::published {

#define TENON_DECLARE(name, make) std::unique_ptr<Reader> make(const JsonFields& config);
TENON_METHODS(TENON_DECLARE)
#undef TENON_DECLARE

namespace {

struct Method {
  std::string_view name;
  std::unique_ptr<Reader> (*make)(const JsonFields& config);
};
#define TENON_ROW(name, make) {name, make},
constexpr Method kMethods[] = {TENON_METHODS(TENON_ROW)};
#undef TENON_ROW
#undef TENON_METHODS

std::string method_names() {
  std::vector<std::string> names;
  for (const Method& method : kMethods) names.emplace_back(method.name);
  return join_and(names);
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
