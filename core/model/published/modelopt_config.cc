#include "core/base/files/mapped_file.h"
#include "core/base/presence.h"
#include "core/model/published/reader.h"

namespace tenon::published {

Result<std::string> with_modelopt_config(std::string config, const std::string& folder) {
  constexpr size_t kMostBytes = size_t{4} << 20;
  const std::string path = folder + "/hf_quant_config.json";
  // What is wrong with config.json is told by those who read the rest of it.
  if (!is_there(path) || !parse_json_object(config).ok()) return config;
  nlohmann::ordered_json whole = in_order(config);
  if (whole.contains("quantization_config") && !whole["quantization_config"].is_null()) {
    return config;
  }
  TENON_ASSIGN_OR_RETURN(const std::string text, read_text_file(path, kMostBytes));
  const Result<nlohmann::json> own = parse_json_object(text);
  if (!own.ok()) return with_context(path, own.status());
  Faults faults;
  const std::optional<JsonFields> how = JsonFields(*own, faults).object("quantization");
  TENON_RETURN_IF_ERROR(faults.status(path));
  if (!how || !how->has("quant_algo")) return config;  // a cache may be all that is rounded
  nlohmann::json said = (*own)["quantization"];
  said["quant_method"] = "modelopt";
  (void)make_reader(JsonFields(said, faults, "quantization."));
  TENON_RETURN_IF_ERROR(faults.status(path));
  whole["quantization_config"] = said;
  return whole.dump();
}

}  // namespace tenon::published
