#include "core/model/plan/plan_difference.h"

#include <cmath>
#include <type_traits>

#include "core/model/plan/plan_values.h"

namespace tenon {
namespace {

// Files that hold f32 give doubles back nearly.
template <typename T>
bool are_equal(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, double>) {
    return a == b || std::fabs(a - b) <= 1e-6 * std::fabs(a);
  } else {
    return a == b;
  }
}

// Keeps the first difference that it is shown.
class Difference {
 public:
  // `what` and `place` are where `a` and `b` stand.
  template <typename Struct>
  void compare_structs(std::string_view what, const std::string& place, const Struct& a,
                       const Struct& b) {
    visit_fields(a, b, [&](const auto& field, const auto& written, const auto& read) {
      if (field.compared != Compared::yes || !text_.empty()) return;
      compare(field.what.empty() ? what : field.what, field.key, place, written, read);
    });
  }
  std::string take() { return std::move(text_); }

 private:
  template <typename T>
  void compare(std::string_view what, std::string_view key, const std::string& place,
               const T& written, const T& read) {
    if constexpr (HasPlanFields<T>) {
      compare_structs(what, place, written, read);
    } else if (!are_equal(written, read)) {
      differ(what, key, place, shown(written), shown(read));
    }
  }
  void compare(std::string_view what, std::string_view key, const std::string&,
               const std::vector<LayerPlan>& written, const std::vector<LayerPlan>& read) {
    if (written.size() != read.size()) {
      return differ(what, key, "", shown(written), shown(read));
    }
    for (size_t i = 0; i < written.size() && text_.empty(); ++i) {
      compare_structs("", " of layer " + std::to_string(i), written[i], read[i]);
    }
  }
  void compare(std::string_view what, std::string_view key, const std::string&,
               const std::vector<RopePlan>& written, const std::vector<RopePlan>& read) {
    if (written.size() != read.size()) {
      return differ(what, key, "", shown(written), shown(read));
    }
    for (size_t i = 0; i < written.size() && text_.empty(); ++i) {
      compare_structs("", " of positions", resolved(written[i]), resolved(read[i]));
    }
  }
  void compare(std::string_view what, std::string_view key, const std::string& place,
               const std::vector<float>& written, const std::vector<float>& read) {
    if (written.size() != read.size()) {
      return differ("the number of " + std::string(what), key, place, shown(written), shown(read));
    }
    for (size_t i = 0; i < written.size(); ++i) {
      if (written[i] == read[i]) continue;
      return differ("number " + std::to_string(i) + " of " + std::string(what), key, place,
                    shown(written[i]), shown(read[i]));
    }
  }

  // Dynamic scaling does nothing within the model's own context, beyond which none goes. LongRoPE's
  // factor has become its factor on cosines and sines.
  static RopePlan resolved(RopePlan rope) {
    if (rope.scaling.kind == RopeScalingKind::dynamic) rope.scaling = {};
    if (rope.scaling.kind == RopeScalingKind::longrope) rope.scaling.factor = 1.0;
    return rope;
  }

  void differ(std::string_view what, std::string_view key, const std::string& place,
              const std::string& written, const std::string& read) {
    text_ = std::string(what) + place + " (" + std::string(key) + ") is " + written +
            ", and would be read back as " + read;
  }

  std::string text_;
};

}  // namespace

std::string plan_difference(const ModelPlan& written, const ModelPlan& read_back) {
  Difference difference;
  difference.compare_structs("", "", written, read_back);
  return difference.take();
}

}  // namespace tenon
