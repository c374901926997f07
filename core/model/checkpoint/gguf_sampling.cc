// general.sampling.* of GGUF files, which llama.cpp reads as texts: a number may have any type.
#include <algorithm>
#include <cmath>
#include <optional>

#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/model/checkpoint/generation_defaults.h"
#include "core/model/config/json_fields.h"
#include "core/request/parameters.h"

namespace tenon {
namespace {

const std::string kPrefix = "general.sampling.";

struct SamplingName {
  std::string_view key;
  std::string_view parameter;
};
constexpr SamplingName kNames[] = {{"top_k", "top_k"},
                                   {"top_p", "top_p"},
                                   {"min_p", "min_p"},
                                   {"xtc_probability", "xtc_probability"},
                                   {"xtc_threshold", "xtc_threshold"},
                                   {"temp", "temperature"},
                                   {"penalty_repeat", "repetition_penalty"},
                                   {"penalty_last_n", "penalty_last_tokens"},
                                   {"mirostat", "mirostat"},
                                   {"mirostat_tau", "mirostat_tau"},
                                   {"mirostat_eta", "mirostat_eta"}};

// Names of samplers beside those of stages, without "_" and "-".
struct StageName {
  std::string_view word;
  SamplingStage stage;
};
constexpr StageName kStageNames[] = {{"typ", SamplingStage::typical_p},
                                     {"typp", SamplingStage::typical_p},
                                     {"temp", SamplingStage::temperature},
                                     {"nucleus", SamplingStage::top_p}};

std::string plain_word(std::string_view word) {
  std::string plain;
  for (const char c : word) {
    if (c != '_' && c != '-') plain += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  return plain;
}

std::optional<SamplingStage> stage_of(std::string_view word) {
  const std::string plain = plain_word(word);
  for (uint32_t i = 0; i < kSamplingStages; ++i) {
    const auto stage = static_cast<SamplingStage>(i);
    if (plain_word(sampling_stage_name(stage)) == plain) return stage;
  }
  const auto* found = std::ranges::find(kStageNames, plain, &StageName::word);
  return found == std::end(kStageNames) ? std::nullopt : std::optional(found->stage);
}

std::optional<double> number_of(const GgufValue& value) {
  if (const auto whole = value.integer()) return static_cast<double>(*whole);
  if (const auto real = value.real(); real && value.type() == GgufType::f32) {
    return shortest(static_cast<float>(*real));
  }
  if (const auto real = value.real()) return real;
  const auto text = value.text();
  if (!text) return std::nullopt;
  const WrittenNumber written = written_number(*text);
  return std::holds_alternative<std::string>(written) ? std::nullopt
                                                      : std::optional(as_real(written));
}

class SamplingReader {
 public:
  SamplingReader(const GgufFile& file, Faults& faults) : file_(file), faults_(faults) {}

  GenerationDefaults read(GenerationDefaults before) {
    out_ = std::move(before);
    for (const SamplingName& name : kNames) read_number(name);
    read_order();
    list_unused();
    return std::move(out_);
  }

 private:
  // What this program says in other words: all, off, and everything that is known.
  double translated(std::string_view parameter, double value) {
    if (parameter == "penalty_last_tokens" && value == 0) no_penalties_ = true;
    if (parameter == "top_p") return std::min(value, 1.0);
    constexpr std::string_view kOffBelowZero[] = {"top_k", "temperature", "min_p",
                                                  "xtc_probability", "penalty_last_tokens"};
    const bool off = std::ranges::find(kOffBelowZero, parameter) != std::end(kOffBelowZero);
    return off ? std::max(value, 0.0) : value;
  }

  void read_number(const SamplingName& name) {
    const std::string key = kPrefix + std::string(name.key);
    const GgufValue* found = file_.find(key);
    if (found == nullptr) return;
    const NumberSpec& spec = parameter(name.parameter).number;
    auto value = number_of(*found);
    if (value) value = translated(name.parameter, *value);
    const bool whole = value && *value == std::floor(*value) && std::fabs(*value) < 9e15;
    const WrittenNumber written = spec.whole && whole ? WrittenNumber(static_cast<int64_t>(*value))
                                                      : WrittenNumber(value.value_or(0.0));
    if (!value || !number_fault(spec, written).empty()) {
      return faults_.invalid(in_quotes(key) + " is " + found->describe() + "; expected " +
                             range_text(spec));
    }
    out_.set(name.parameter, *value, key);
  }

  // "top_k;top_p;temperature": who is not named has no say.
  void read_order() {
    if (no_penalties_) forget("repetition_penalty");
    const std::string key = kPrefix + "sequence";
    const GgufValue* found = file_.find(key);
    if (found == nullptr) return;
    const auto text = found->text();
    if (!text) {
      return faults_.invalid(in_quotes(key) + " is " + found->describe() +
                             "; expected names of samplers with semicolons between them");
    }
    for (const std::string_view word : split(*text, ';')) {
      if (word.empty()) continue;
      const auto stage = stage_of(word);
      if (!stage) {
        out_.unused.push_back(key + " (" + one_line(word, 40) + ")");
      } else if (std::ranges::find(out_.order, *stage) == out_.order.end()) {
        out_.order.push_back(*stage);
      }
    }
    if (out_.order.empty()) return;
    out_.said_by["order"] = key;
    for (const auto& [name, stage] : kStageOfNumber) {
      if (std::ranges::find(out_.order, stage) == out_.order.end()) forget(name);
    }
  }

  // Also of what the file itself takes back: no word about it.
  void forget(std::string_view name) {
    out_.sampling[*find_sampling_key(name)].reset();
    if (const auto said = out_.said_by.find(name); said != out_.said_by.end()) {
      out_.said_by.erase(said);
    }
  }

  void list_unused() {
    for (const auto& [key, value] : file_.metadata()) {
      if (!key.starts_with(kPrefix) || key == kPrefix + "sequence") continue;
      const std::string_view rest = std::string_view(key).substr(kPrefix.size());
      if (std::ranges::find(kNames, rest, &SamplingName::key) == std::end(kNames)) {
        out_.unused.push_back(key);
      }
    }
  }

  static constexpr std::pair<std::string_view, SamplingStage> kStageOfNumber[] = {
      {"temperature", SamplingStage::temperature},
      {"top_k", SamplingStage::top_k},
      {"top_p", SamplingStage::top_p},
      {"min_p", SamplingStage::min_p},
      {"xtc_probability", SamplingStage::xtc},
      {"xtc_threshold", SamplingStage::xtc},
      {"repetition_penalty", SamplingStage::penalties}};

  const GgufFile& file_;
  Faults& faults_;
  GenerationDefaults out_;
  bool no_penalties_ = false;
};

// Whether there is nothing that has no key here.
bool has_keys_for_all(const GenerationDefaults& defaults) {
  for (size_t i = 0; i < kSamplingKeyCount; ++i) {
    const SamplingKey& known = sampling_keys()[i];
    const auto& value = defaults.sampling[i];
    if (!value || *value == known.get(SamplingParams())) continue;
    const auto* key = std::ranges::find(kNames, known.name, &SamplingName::parameter);
    if (key == std::end(kNames)) return false;
  }
  return !defaults.max_tokens && !defaults.min_tokens && !defaults.length_penalty &&
         !defaults.early_stopping && defaults.bad_words.empty() && defaults.stop.empty() &&
         defaults.unused.empty();
}

}  // namespace

Result<GenerationDefaults> gguf_generation_defaults(const GgufFile& file, std::string_view name) {
  GenerationDefaults before;
  // What a folder's file said that has no key of its own here.
  if (const GgufValue* whole = file.find("tenon.generation_config"); whole && whole->text()) {
    TENON_ASSIGN_OR_RETURN(before, parse_generation_config(*whole->text(), name));
  }
  Faults faults;
  GenerationDefaults defaults = SamplingReader(file, faults).read(std::move(before));
  if (faults.any()) return faults.status(name);
  defaults.source = name;
  return defaults;
}

bool add_gguf_sampling(const GenerationDefaults& defaults, GgufMetadata& out) {
  for (const SamplingName& name : kNames) {
    const auto value = defaults.value(name.parameter);
    if (!value) continue;
    const std::string key = kPrefix + std::string(name.key);
    if (!parameter(name.parameter).number.whole) {
      out.add_real(key, static_cast<float>(*value));
      continue;
    }
    // There 0 looks back on nothing, and what looks back on everything is -1.
    const bool all = name.key == "penalty_last_n" && *value == 0;
    out.add_integer(key, all ? -1 : static_cast<int32_t>(*value));
  }
  std::string order;
  for (const SamplingStage stage : defaults.order) {
    const bool typical = stage == SamplingStage::typical_p;
    order +=
        (order.empty() ? "" : ";") + std::string(typical ? "typ_p" : sampling_stage_name(stage));
  }
  if (!order.empty()) out.add_text(kPrefix + "sequence", order);
  return has_keys_for_all(defaults);
}

}  // namespace tenon
