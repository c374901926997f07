#include "core/model/checkpoint/generation_defaults.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/quote.h"
#include "core/model/config/json_fields.h"
#include "core/model/families/reading/config_keys.h"
#include "core/request/parameters.h"

namespace tenon {
namespace {

using nlohmann::json;

// Keys that ask for what no part of this program does, with the value that asks for nothing. Null,
// false and empty lists ask for nothing anywhere.
struct UnusedKey {
  std::string_view key;
  double neutral;
  bool of_draws = false;  // without sampling it says nothing
};
constexpr UnusedKey kUnusedKeys[] = {{"epsilon_cutoff", 0, true},
                                     {"eta_cutoff", 0, true},
                                     {"top_h", 0, true},
                                     {"no_repeat_ngram_size", 0},
                                     {"encoder_repetition_penalty", 1},
                                     {"encoder_no_repeat_ngram_size", 0},
                                     {"diversity_penalty", 0},
                                     {"num_beams", 1},
                                     {"num_beam_groups", 1},
                                     {"num_return_sequences", 1},
                                     {"penalty_alpha", 0},
                                     {"guidance_scale", 1},
                                     {"min_length", 0},
                                     {"begin_suppress_tokens", 0},
                                     {"forced_bos_token_id", -1},
                                     {"forced_eos_token_id", -1},
                                     {"forced_decoder_ids", 0},
                                     {"force_words_ids", 0},
                                     {"constraints", 0},
                                     {"sequence_bias", 0},
                                     {"exponential_decay_length_penalty", 0},
                                     {"watermarking_config", 0},
                                     {"renormalize_logits", 0},
                                     {"remove_invalid_values", 0},
                                     {"token_healing", 0},
                                     {"dola_layers", 0},
                                     {"max_time", 0}};

// What others call otherwise than parameters() do, or what is no business of a model's.
bool is_taken(std::string_view name) {
  return name != "temperature" && !name.starts_with("watermark_");
}

class GenerationReader {
 public:
  GenerationReader(const json& config, Faults& faults) : fields_(config, faults), faults_(faults) {}

  GenerationDefaults read() {
    read_numbers();
    read_temperature();
    read_lengths();
    read_beams();
    read_lists();
    list_unused();
    out_.eos = fields_.token_ids("eos_token_id", {}, kMaxWidth);
    return std::move(out_);
  }

 private:
  void say(std::string_view parameter, std::string_view key) {
    out_.said_by[std::string(parameter)] = key;
  }

  // A number of the parameter's range, or a fault.
  std::optional<double> number(const char* key, std::string_view name) {
    if (!fields_.has(key)) return std::nullopt;
    const NumberSpec& spec = parameter(name).number;
    const double value = fields_.number(key, spec.whole ? spec.least : spec.max);
    // Some say "all" like this.
    if (name == "top_k" && value == -1) return 0.0;
    const bool whole = value == std::floor(value) && std::fabs(value) < 9e15;
    const WrittenNumber written =
        spec.whole && whole ? WrittenNumber(static_cast<int64_t>(value)) : WrittenNumber(value);
    if (number_fault(spec, written).empty()) return value;
    faults_.invalid(fields_.name(key) + " is " + describe(*fields_.find(key)) + "; expected " +
                    range_text(spec));
    return std::nullopt;
  }

  void read_numbers() {
    for (const SamplingKey& known : sampling_keys()) {
      if (!is_taken(known.name)) continue;
      const std::string key(known.name);
      if (const auto value = number(key.c_str(), known.name)) out_.set(known.name, *value, key);
    }
  }

  // Without sampling the most likely token is taken, whatever the temperature says.
  void read_temperature() {
    draws_ = fields_.flag("do_sample", true);
    const auto value = number("temperature", "temperature");
    if (!draws_) return out_.set("temperature", 0.0, "do_sample");
    if (value) out_.set("temperature", *value, "temperature");
  }

  void read_lengths() {
    if (const auto most = number("max_new_tokens", "max_tokens")) {
      out_.max_tokens = static_cast<uint32_t>(*most);
      say("max_tokens", "max_new_tokens");
    }
    const auto least = number("min_new_tokens", "min_tokens");
    if (least.value_or(0) > 0) {
      out_.min_tokens = static_cast<uint32_t>(*least);
      say("min_tokens", "min_new_tokens");
    }
    // transformers writes 20 where nobody said anything.
    constexpr uint32_t kNobodySaid = 20;
    const uint32_t together = fields_.count("max_length", kNobodySaid, 0, 0xffffffffu);
    if (together != kNobodySaid) out_.max_length = together;
  }

  void read_beams() {
    const auto penalty = number("length_penalty", "length_penalty");
    if (penalty.value_or(1.0) != 1.0) {
      out_.length_penalty = penalty;
      say("length_penalty", "length_penalty");
    }
    const json* early = fields_.find("early_stopping");
    if (early == nullptr || *early == false) return;
    if (*early == true || *early == "never") {
      out_.early_stopping = *early == true ? "true" : "never";
      return say("early_stopping", "early_stopping");
    }
    faults_.invalid("'early_stopping' is " + describe(*early) +
                    "; expected true, false or \"never\"");
  }

  void read_lists() {
    for (const TokenId id : fields_.token_ids("suppress_tokens", {}, kMaxWidth)) {
      out_.bad_words.push_back({id});
      say("bad_words", "suppress_tokens");
    }
    read_bad_words();
    const json* stop = fields_.find("stop_strings");
    if (stop == nullptr) return;
    const json list = stop->is_array() ? *stop : json::array({*stop});
    for (const json& text : list) {
      if (!text.is_string() || text.get_ref<const std::string&>().empty()) {
        return faults_.invalid("'stop_strings' is " + describe(*stop) + "; expected texts");
      }
      out_.stop.push_back(text.get<std::string>());
      say("stop", "stop_strings");
    }
  }

  // [[17, 18], [19]]
  void read_bad_words() {
    const json* words = fields_.find("bad_words_ids");
    if (words == nullptr) return;
    bool sound = words->is_array();
    for (size_t i = 0; sound && i < words->size(); ++i) {
      const json& word = (*words)[i];
      sound = word.is_array() && !word.empty() && std::ranges::all_of(word, [](const json& id) {
                return id.is_number_unsigned() && id.get<uint64_t>() < kMaxWidth;
              });
      if (sound) out_.bad_words.push_back(word.get<std::vector<TokenId>>());
    }
    if (!sound) faults_.invalid("'bad_words_ids' is not a list of lists of token ids");
    if (!words->empty()) say("bad_words", "bad_words_ids");
  }

  void list_unused() {
    for (const UnusedKey& known : kUnusedKeys) {
      const std::string key(known.key);
      const json* value = fields_.find(key.c_str());
      if (value == nullptr || (known.of_draws && !draws_)) continue;
      const bool nothing = (value->is_boolean() && !value->get<bool>()) ||
                           (value->is_structured() && value->empty()) ||
                           (value->is_number() && value->get<double>() == known.neutral);
      if (!nothing) out_.unused.push_back(key);
    }
  }

  JsonFields fields_;
  Faults& faults_;
  GenerationDefaults out_;
  bool draws_ = true;
};

}  // namespace

void GenerationDefaults::set(std::string_view name, double value, std::string_view key) {
  sampling[*find_sampling_key(name)] = value;
  said_by[std::string(name)] = key;
}

void GenerationDefaults::drop(std::string_view name) {
  const auto said = said_by.find(name);
  if (said == said_by.end()) return;
  bool asks = true;
  if (const auto index = find_sampling_key(name)) {
    asks = sampling[*index] != sampling_keys()[*index].get(SamplingParams());
    sampling[*index].reset();
  }
  if (name == "order") order.clear();
  if (name == "bad_words") bad_words.clear();
  if (name == "max_tokens") max_tokens.reset();
  if (name == "min_tokens") min_tokens.reset();
  if (asks && std::ranges::find(unused, said->second) == unused.end()) {
    unused.push_back(said->second);
  }
  said_by.erase(said);
}

Result<GenerationDefaults> parse_generation_config(std::string_view text, std::string_view name) {
  Result<json> parsed = parse_json_object(text);
  if (!parsed.ok()) return with_context(name, parsed.status());
  Faults faults;
  GenerationDefaults defaults = GenerationReader(*parsed, faults).read();
  if (faults.any()) return faults.status(name);
  defaults.source = name;
  return defaults;
}

std::string generation_config_text(const GenerationDefaults& defaults, const std::string& text) {
  using nlohmann::ordered_json;
  ordered_json out = in_order(text);
  if (!out.is_object()) out = ordered_json::object();
  const auto temperature = defaults.value("temperature");
  if (temperature) out["do_sample"] = *temperature > 0.0;
  for (size_t i = 0; i < kSamplingKeyCount; ++i) {
    const auto& value = defaults.sampling[i];
    const std::string name(sampling_keys()[i].name);
    if (!value || (name == "temperature" && *value == 0.0)) continue;
    const bool whole = parameter(name).number.whole;
    if (whole) out[name] = static_cast<int64_t>(*value);
    if (!whole) out[name] = shortest(static_cast<float>(*value));
  }
  if (defaults.max_tokens) out["max_new_tokens"] = *defaults.max_tokens;
  if (!defaults.eos.empty()) out["eos_token_id"] = defaults.eos;
  return out.empty() ? std::string() : out.dump(1) + "\n";
}

}  // namespace tenon
