// What plugins of every interface make of their options.
#include <algorithm>

#include "core/base/quote.h"
#include "core/conformance/cases/cases.h"
#include "core/conformance/cases/exercise.h"

namespace tenon {
namespace {

// Values at the edges of what an option's table allows.
std::vector<SettingValue> edges(const OptionSpec& option) {
  switch (option.type) {
    case OptionType::boolean:
      return {false, true};
    case OptionType::integer:
      return {option.min, option.max};
    case OptionType::bytes:
      return {option.min, option.max};
    case OptionType::duration:
      return {std::to_string(option.min) + "ns", std::to_string(option.max) + "ns"};
    case OptionType::real:
      return {option.min_real, option.max_real};
    case OptionType::choice: {
      std::vector<SettingValue> all;
      for (uint32_t i = 0; i < option.choice_count; ++i) {
        all.emplace_back(std::string(option.choices[i]));
      }
      return all;
    }
    case OptionType::text:
    case OptionType::path:
      return {std::string(), std::string(1 << 16, 'x')};
  }
  return {};
}

bool is_free_text(const OptionSpec& option) {
  return option.type == OptionType::text || option.type == OptionType::path;
}

Finding option_bounds(Subject& subject) {
  const PluginDescriptor& plugin = subject.descriptor();
  if (plugin.option_count == 0) return skipped("it has no options");
  for (const OptionSpec& option : std::span(plugin.options, plugin.option_count)) {
    std::vector<SettingValue> values = edges(option);
    if (option.accepts_auto) values.emplace_back(std::string("auto"));
    for (const SettingValue& value : values) {
      // What `validate` refuses across options never reaches `create`; texts are anybody's guess.
      auto filled = subject.fill({{std::string(option.key), value, {}}});
      if (!filled.ok()) continue;
      auto made = subject.make_object({{std::string(option.key), value, {}}});
      const std::string set =
          "with " + std::string(option.key) + " = " + one_line(to_toml(value), 80);
      if (!made.ok() && !is_free_text(option)) {
        return {CaseVerdict::warn,
                set + ", which its own table allows: " + message_of(made.status())};
      }
      if (!made.ok() && made.status().message().empty())
        return broke(set + ": fails without a word");
    }
  }
  return {};
}

std::vector<Setting> one_setting(const OptionSpec& option, const SettingValue& value) {
  return {{std::string(option.key), value, {}}};
}

// Values to try: the edges, and for numbers some in between, where most of them do something.
std::vector<SettingValue> samples(const OptionSpec& option) {
  std::vector<SettingValue> values = edges(option);
  if (option.type == OptionType::integer || option.type == OptionType::bytes) {
    for (const int64_t value : {1, 2, 5, 16, 40}) {
      if (option.min < value && value < option.max) values.emplace_back(value);
    }
  }
  if (option.type == OptionType::real) {
    for (const double share : {0.05, 0.5}) {
      values.emplace_back(option.min_real + share * (option.max_real - option.min_real));
    }
  }
  if (option.accepts_auto) values.emplace_back(std::string("auto"));
  return values;
}

// Looks for a question that a plugin answers otherwise because of one option.
class EffectSearch {
 public:
  explicit EffectSearch(Subject& subject)
      : subject_(subject),
        options_(subject.descriptor().options, subject.descriptor().option_count) {}

  // With the others at their defaults; then with each of them set to something as well, for there
  // are options that count only together with another one.
  bool has_effect(const OptionSpec& option) {
    if (differs(option, {})) return true;
    for (const OptionSpec& other : options_) {
      if (other.key == option.key || is_free_text(other)) continue;
      for (const SettingValue& value : samples(other)) {
        if (differs(option, one_setting(other, value))) return true;
      }
    }
    return false;
  }

 private:
  bool differs(const OptionSpec& option, const std::vector<Setting>& beside) {
    const Transcript usual = answers(beside);
    for (const SettingValue& value : samples(option)) {
      std::vector<Setting> settings = beside;
      settings.push_back(one_setting(option, value).front());
      if (answers(settings) != usual) return true;
    }
    return false;
  }
  // What it refuses is an answer, too.
  Transcript answers(const std::vector<Setting>& settings) {
    Subject tried = subject_.with(settings);
    auto made = exercise_widely(tried, subject_.seed());
    return made.ok() ? *std::move(made) : Transcript{message_of(made.status())};
  }

  Subject& subject_;
  std::span<const OptionSpec> options_;
};

Finding options_matter(Subject& subject) {
  const PluginDescriptor& plugin = subject.descriptor();
  if (const auto asked = exercise(subject, subject.seed()); !asked.ok()) {
    return skipped(message_of(asked.status()));
  }
  EffectSearch search(subject);
  std::string idle;
  uint32_t tried = 0;
  for (const OptionSpec& option : std::span(plugin.options, plugin.option_count)) {
    if (is_free_text(option)) continue;
    ++tried;
    if (search.has_effect(option)) continue;
    idle += (idle.empty() ? "" : ", ") + std::string(option.key);
  }
  if (tried == 0) return skipped("it has no options whose values these cases could guess");
  if (idle.empty()) return {};
  return {CaseVerdict::warn,
          "no value of " + idle +
              " changes an answer to anything that these cases ask, alone or beside another "
              "option – is it used? (What changes speed alone looks like this, too.)"};
}

}  // namespace

CaseList option_cases() {
  return {
      {"any.option_bounds",
       {},
       "options.h",
       "From one table come validation, `tenon plugins inspect`, the reference pages, and the "
       "tests "
       "that try every option at its bounds.",
       &option_bounds},
      {"any.option_effects", {}, "options.h", "what it does, one sentence", &options_matter},
  };
}

}  // namespace tenon
