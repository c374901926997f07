#include "core/model/plan/plan_lines.h"

#include <utility>

#include "core/model/plan/plan_values.h"

namespace tenon {
namespace {

class Lines {
 public:
  template <typename Struct>
  void add_struct(const std::string& of, std::string_view what, const Struct& own,
                  const Struct& neutral) {
    visit_fields(own, neutral, [&](const auto& field, const auto& value, const auto& usual) {
      add(of, field.what.empty() ? what : field.what, field.key, value, usual);
    });
  }
  std::vector<PlanLine> take() { return std::move(lines_); }

 private:
  template <typename T>
  void add(const std::string& of, std::string_view what, std::string_view key, const T& value,
           const T& usual) {
    if constexpr (HasPlanFields<T>) {
      add_struct(of, what, value, usual);
    } else if (!(value == usual)) {
      lines_.push_back({of, std::string(what), std::string(key), shown(value)});
    }
  }
  void add(const std::string&, std::string_view, std::string_view,
           const std::vector<RopePlan>& ropes, const std::vector<RopePlan>&) {
    for (size_t i = 0; i < ropes.size(); ++i) {
      add_struct("positions " + std::to_string(i), "", ropes[i], {});
    }
  }
  void add(const std::string& of, std::string_view what, std::string_view key,
           const std::vector<LayerPlan>& layers, const std::vector<LayerPlan>&) {
    lines_.push_back({of, std::string(what), std::string(key), shown(layers)});
    for (size_t first = 0; first < layers.size();) {
      size_t last = first;
      while (last + 1 < layers.size() && layers[last + 1] == layers[first]) ++last;
      const std::string number = std::to_string(first);
      add_struct(
          first == last ? "layer " + number : "layers " + number + " to " + std::to_string(last),
          "", layers[first], {});
      first = last + 1;
    }
  }

  std::vector<PlanLine> lines_;
};

}  // namespace

std::vector<PlanLine> plan_lines(const ModelPlan& plan) {
  Lines lines;
  lines.add_struct("the model", "", plan, {});
  return lines.take();
}

}  // namespace tenon
