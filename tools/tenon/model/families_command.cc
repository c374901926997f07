// `tenon model families`: the families of models that can be read, by the names that files give
// them.
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/config/text_part.h"
#include "core/model/families/family.h"
#include "core/model/synth/named_shapes.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/process/json_text.h"
#include "tools/tenon/process/standard_output.h"

namespace tenon {
namespace {

using Json = nlohmann::ordered_json;

// Models of text and images whose text part is one of the family.
std::vector<std::string> wholes_of(std::string_view model_type) {
  std::vector<std::string> names;
  for (const TextPartName& name : text_part_names()) {
    if (name.text_type == model_type) names.emplace_back(name.whole);
  }
  return names;
}

// Names for `model synth --shape` by their model_type.
std::map<std::string, std::vector<std::string>> shapes_by_type() {
  std::map<std::string, std::vector<std::string>> shapes;
  for (const NamedShape& shape : named_shapes()) {
    shapes[Json::parse(shape.config()).at("model_type")].emplace_back(shape.name);
  }
  return shapes;
}

Json families_json() {
  Json all = Json::array();
  auto shapes = shapes_by_type();
  for (const Family* family : families()) {
    all.push_back({{"model_type", family->model_type},
                   {"gguf", family->architecture},
                   {"text_part_of", wholes_of(family->model_type)},
                   {"shapes", shapes[std::string(family->model_type)]}});
  }
  return all;
}

void print_families() {
  size_t width = 0, gguf_width = 0;
  for (const Family* family : families()) {
    width = std::max(width, family->model_type.size());
    gguf_width = std::max(gguf_width, family->architecture.size());
  }
  const auto line = [&](std::string_view type, std::string_view gguf, std::string_view wholes) {
    putf("%-*s  %-*s  %s\n", static_cast<int>(width), std::string(type).c_str(),
         static_cast<int>(gguf_width), std::string(gguf).c_str(), std::string(wholes).c_str());
  };
  line("model_type", "in GGUF", "text part of");
  for (const Family* family : families()) {
    std::string wholes;
    for (const std::string& name : wholes_of(family->model_type)) {
      wholes += (wholes.empty() ? "" : ", ") + name;
    }
    line(family->model_type, family->architecture.empty() ? "-" : family->architecture, wholes);
  }
}

}  // namespace

void add_model_families(Command model, Action& action) {
  auto json = std::make_shared<bool>(false);
  Command command = model.add_subcommand("families", "The families of models that can be read");
  command.add_flag("--json", *json, "as JSON");
  command.callback([json, &action] {
    action = [json] {
      if (*json) {
        put(json_text(families_json()));
      } else {
        print_families();
      }
      return 0;
    };
  });
}

}  // namespace tenon
