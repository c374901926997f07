// What plugins of every interface make of their options.
#include <algorithm>

#include "core/base/quote.h"
#include "core/conformance/cases/acting.h"
#include "core/conformance/cases/cases.h"
#include "core/conformance/cases/exercise.h"

namespace tenon {
namespace {

Finding option_bounds(Subject& subject) {
  const PluginDescriptor& plugin = subject.descriptor();
  if (plugin.option_count == 0) return skipped("it has no options");
  for (const OptionSpec& option : std::span(plugin.options, plugin.option_count)) {
    std::vector<SettingValue> values = edge_values(option);
    if (option.accepts_auto) values.emplace_back(std::string("auto"));
    for (const SettingValue& value : values) {
      // What `validate` refuses across options never reaches `create`; texts are anybody's guess.
      auto filled = subject.fill({{std::string(option.key), value, {}}});
      if (!filled.ok()) continue;
      auto made = subject.make_object({{std::string(option.key), value, {}}});
      const std::string set =
          "with " + std::string(option.key) + " = " + one_line(to_toml(value), 80);
      // What a constructor throws arrives so; a text that means nothing is refused that way, too.
      if (made.status().code() == StatusCode::failed && !is_free_text(option)) {
        return broke(set + ", which its own table allows, `create` fails or throws: " +
                     message_of(made.status()));
      }
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

// Looks for a question that a plugin answers otherwise because of one option.
class EffectSearch {
 public:
  explicit EffectSearch(Subject& subject)
      : subject_(subject),
        options_(subject.descriptor().options, subject.descriptor().option_count) {}

  // With the others at their defaults; then with each of them set to something as well, for there
  // are options that count only together with another one.
  bool has_effect(const OptionSpec& option) {
    if (differs(option, {}, &exercise_widely)) return true;
    for (const OptionSpec& other : options_) {
      if (other.key == option.key || is_free_text(other)) continue;
      for (const SettingValue& value : sample_values(other)) {
        if (differs(option, one_setting(other, value), &exercise_widely)) return true;
      }
    }
    // What counts only after a while.
    return differs(option, {}, &exercise_at_length);
  }

 private:
  using Exercise = Result<Transcript> (*)(Subject&, uint64_t);

  bool differs(const OptionSpec& option, const std::vector<Setting>& beside, Exercise exercise) {
    const Transcript usual = answers(beside, exercise);
    for (const SettingValue& value : sample_values(option)) {
      std::vector<Setting> settings = beside;
      settings.push_back(one_setting(option, value).front());
      if (answers(settings, exercise) != usual) return true;
    }
    return false;
  }
  // What it refuses is an answer, too.
  Transcript answers(const std::vector<Setting>& settings, Exercise exercise) {
    Subject tried = subject_.with(settings);
    auto made = exercise(tried, subject_.seed());
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
              "option, at once or over some hundred steps – is it used? (What changes speed alone "
              "looks "
              "like this, too.)"};
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
       &option_bounds,
       Needs::a_plugin},
      {"any.option_effects",
       {},
       "options.h",
       "what it does, one sentence",
       &options_matter,
       Needs::a_plugin},
  };
}

}  // namespace tenon
