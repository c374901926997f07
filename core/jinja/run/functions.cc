// Functions that templates can call.
#include <algorithm>
#include <ctime>

#include "core/base/quote.h"
#include "core/jinja/compare.h"
#include "core/jinja/represent.h"
#include "core/jinja/run/interpreter.h"

namespace tenon::chat {
namespace {

constexpr Integer kLongestRange = 100'000;

Result<Value> make_range(Interpreter& run, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("range", arguments, {"start", "stop", "step"}, 1));
  TENON_ASSIGN_OR_RETURN(Integer first, whole_argument("range", bound[0], 0));
  TENON_ASSIGN_OR_RETURN(Integer end, whole_argument("range", bound[1], 0));
  TENON_ASSIGN_OR_RETURN(const Integer step, whole_argument("range", bound[2], 1));
  if (bound[1] == nullptr) std::swap(first, end);
  if (step == 0) return invalid_argument("'range' needs a step other than 0");
  constexpr Integer kFar = Integer{1} << 100;
  if (std::max({first, end, step}) > kFar || std::min({first, end, step}) < -kFar) {
    return invalid_argument("'range' gets a number that is too large");
  }
  const Integer span = step > 0 ? end - first : first - end;
  const Integer stride = step > 0 ? step : -step;
  const Integer count = span <= 0 ? 0 : (span + stride - 1) / stride;
  if (count > kLongestRange) return invalid_argument("'range' makes more than 100000 numbers");
  Values numbers;
  if (!run.budget().allows_values(static_cast<uint64_t>(count))) return run.budget().status();
  for (Integer i = 0; i < count; ++i) numbers.emplace_back(first + i * step);
  return run.list(std::move(numbers), ListKind::range);
}

Result<Value> make_namespace(Interpreter& run, const Arguments& arguments) {
  return run.make_namespace(arguments);
}

Result<Value> new_dict(Interpreter& run, const Arguments& arguments) {
  std::vector<Dict::Item> items;
  for (const Value& value : arguments.positional) {
    if (const Dict* dict = value.dict()) {
      if (!run.budget().allows_values(dict->items.size())) return run.budget().status();
      items.insert(items.end(), dict->items.begin(), dict->items.end());
      continue;
    }
    TENON_ASSIGN_OR_RETURN(const Values pairs, run.items_of(value));
    for (const Value& pair : pairs) {
      TENON_ASSIGN_OR_RETURN(Values both, run.items_of(pair));
      if (both.size() != 2 || !can_be_key(both[0])) {
        return invalid_argument("'dict' needs pairs of a key and a value");
      }
      items.emplace_back(std::move(both[0]), std::move(both[1]));
    }
  }
  for (const auto& [name, value] : arguments.named) items.emplace_back(run.text(name), value);
  return make_dict(run.budget(), std::move(items));
}

Result<Value> raise_exception(Interpreter& run, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("raise_exception", arguments, {"message"}, 1));
  TENON_ASSIGN_OR_RETURN(const MarkedText message, to_text(*bound[0], run.budget()));
  return invalid_argument("the chat template refuses this conversation: " +
                          one_line(message.bytes(), 2000));
}

Result<Value> strftime_now(Interpreter& run, const Arguments& arguments) {
  TENON_ASSIGN_OR_RETURN(const Bound bound, bind("strftime_now", arguments, {"format"}, 1));
  TENON_ASSIGN_OR_RETURN(const MarkedText* format, text_argument("strftime_now", bound[0]));
  if (format == nullptr || format->size() > 256) {
    return invalid_argument("'strftime_now' needs a format of at most 256 bytes");
  }
  const std::time_t now = run.now();
  std::tm local{};
  localtime_r(&now, &local);
  // A mark at the end tells an empty result from one that does not fit.
  const std::string with_mark = std::string(format->bytes()) + ".";
  char buffer[4096];
  const size_t written = std::strftime(buffer, sizeof buffer, with_mark.c_str(), &local);
  if (written == 0) return invalid_argument("'strftime_now' makes too long a text");
  return run.text(std::string_view(buffer, written - 1));
}

}  // namespace

const Function* find_function(std::string_view name) {
  static constexpr Function kFunctions[] = {{"range", make_range},
                                            {"namespace", make_namespace},
                                            {"dict", new_dict},
                                            {"raise_exception", raise_exception},
                                            {"strftime_now", strftime_now}};
  const auto* found = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                   [&](const Function& entry) { return entry.name == name; });
  return found == std::end(kFunctions) ? nullptr : found;
}

}  // namespace tenon::chat
