#include "core/config/answer_settings.h"

#include <cmath>

#include "core/base/text.h"

namespace tenon {
namespace {

using A = AnswerSettings;

template <typename T>
struct KnownMember {
  std::string_view name;  // of the parameter
  T A::*member;
};
constexpr KnownMember<std::optional<uint32_t>> kCounts[] = {
    {"max_tokens", &A::max_tokens},     {"min_tokens", &A::min_tokens}, {"samples", &A::samples},
    {"best_of", &A::best_of},           {"beams", &A::beams},           {"logprobs", &A::logprobs},
    {"block_length", &A::block_length}, {"steps", &A::steps},
};
constexpr KnownMember<std::optional<bool>> kFlags[] = {
    {"prompt_logprobs", &A::prompt_logprobs},
    {"ignore_eos", &A::ignore_eos},
    {"include_stop", &A::include_stop},
};
constexpr KnownMember<std::optional<std::string>> kWords[] = {
    {"early_stopping", &A::early_stopping},
    {"remasking", &A::remasking},
    {"order", &A::order},
    {"adapter", &A::adapter},
};
constexpr KnownMember<std::vector<std::string>> kTexts[] = {
    {"stop", &A::stop},
    {"bad_words", &A::bad_words},
    {"dry_breakers", &A::dry_breakers},
};
constexpr KnownMember<std::vector<TokenId>> kIds[] = {
    {"stop_tokens", &A::stop_tokens},
    {"allowed_tokens", &A::allowed_tokens},
};

// Null where no member has the name.
template <typename T, size_t count>
T* find_member(A& answer, const KnownMember<T> (&members)[count], std::string_view name) {
  for (const KnownMember<T>& known : members) {
    if (known.name == name) return &(answer.*known.member);
  }
  return nullptr;
}

}  // namespace

std::string set_number(A& answer, const Parameter& parameter, const WrittenNumber& written) {
  std::string fault = number_fault(parameter.number, written);
  if (!fault.empty()) return fault;
  if (const auto key = find_sampling_key(parameter.name)) {
    answer.sampling[*key] = as_real(written);
  } else if (auto* count = find_member(answer, kCounts, parameter.name)) {
    *count = static_cast<uint32_t>(std::get<int64_t>(written));
  } else if (parameter.name == "seed") {
    answer.seed = static_cast<uint64_t>(std::get<int64_t>(written));
  } else if (parameter.name == "length_penalty") {
    answer.length_penalty = as_real(written);
  }
  return fault;
}

std::string set_flag(A& answer, const Parameter& parameter, bool value) {
  if (auto* flag = find_member(answer, kFlags, parameter.name)) *flag = value;
  return "";
}

std::string set_word(A& answer, const Parameter& parameter, std::string_view word) {
  if (parameter.kind == ParameterKind::stages) {
    const auto order = parse_sampling_order(word);
    if (!order.ok()) return std::string(order.status().message());
  } else if (parameter.kind == ParameterKind::name) {
    if (std::string fault = text_fault(parameter, word); !fault.empty()) return fault;
  } else if (std::string fault = word_fault(parameter, word); !fault.empty()) {
    return fault;
  }
  if (auto* text = find_member(answer, kWords, parameter.name)) *text = word;
  return "";
}

std::string add_text(A& answer, const Parameter& parameter, std::string_view text) {
  std::string fault = text_fault(parameter, text);
  auto* texts = find_member(answer, kTexts, parameter.name);
  if (fault.empty() && texts != nullptr) texts->emplace_back(text);
  return fault;
}

std::string add_id(A& answer, const Parameter& parameter, const WrittenNumber& id) {
  std::string fault = id_fault(parameter.name, id);
  auto* ids = find_member(answer, kIds, parameter.name);
  if (fault.empty() && ids != nullptr) {
    ids->push_back(static_cast<TokenId>(std::get<int64_t>(id)));
  }
  return fault;
}

std::string no_ids_fault(const Parameter& parameter) {
  if (parameter.name != "allowed_tokens") return "";
  return "allowed_tokens is empty, which allows no token – leave it out to allow all";
}

std::string add_bias(A& answer, std::string_view token, const WrittenNumber& bias) {
  constexpr double kMost = 3.4e38;  // a float has little more
  const WrittenNumber id = written_number(token);
  std::string fault = id_fault("logit_bias", id);
  if (fault.empty())
    fault = number_fault(real_number("a number of logit_bias", -kMost, kMost), bias);
  if (!fault.empty()) return fault;
  answer.logit_bias.push_back(
      {static_cast<TokenId>(std::get<int64_t>(id)), static_cast<float>(as_real(bias))});
  return "";
}

std::string add_setting(A& answer, VendorSetting setting) {
  if (setting.key.empty()) {
    return "params has an empty key – it must be a name such as acme.heat – write one";
  }
  if (!setting.is_text && !std::isfinite(setting.number)) {
    return "the parameter \"" + setting.key + "\" is " + format_real(setting.number) +
           " – it must be a finite number or a text – change it or leave it out";
  }
  answer.params.push_back(std::move(setting));
  return "";
}

AnswerSettings overlaid(AnswerSettings first, const AnswerSettings& then) {
  const auto complete = [](auto& value, const auto& otherwise) {
    if (!value) value = otherwise;
  };
  const auto complete_list = [](auto& list, const auto& otherwise) {
    if (list.empty()) list = otherwise;
  };
  for (size_t i = 0; i < kSamplingKeyCount; ++i) complete(first.sampling[i], then.sampling[i]);
  for (const auto& known : kCounts) complete(first.*known.member, then.*known.member);
  for (const auto& known : kFlags) complete(first.*known.member, then.*known.member);
  for (const auto& known : kWords) complete(first.*known.member, then.*known.member);
  complete(first.seed, then.seed);
  complete(first.length_penalty, then.length_penalty);
  for (const auto& known : kTexts) complete_list(first.*known.member, then.*known.member);
  for (const auto& known : kIds) complete_list(first.*known.member, then.*known.member);
  complete_list(first.logit_bias, then.logit_bias);
  complete_list(first.params, then.params);
  return first;
}

std::vector<NamedSetting> named_settings(const AnswerSettings& answer) {
  std::vector<NamedSetting> all;
  // In place: GCC 12 takes the move of a whole variant for one of uninitialised members.
  const auto add = [&](std::string_view name, const auto& value) {
    NamedSetting& added = all.emplace_back();
    added.name = name;
    added.value = value;
  };
  const auto add_real = [&](std::string_view name, double value) {
    if (parameter(name).number.whole) {
      add(name, static_cast<int64_t>(value));
    } else {
      add(name, value);
    }
  };
  const auto add_list = [&](std::string_view name, const auto& list) {
    if (!list.empty()) add(name, list);
  };
  for (const auto& known : kCounts) {
    if (const auto& count = answer.*known.member) add(known.name, static_cast<int64_t>(*count));
  }
  for (const auto& known : kFlags) {
    if (const auto& flag = answer.*known.member) add(known.name, *flag);
  }
  for (const auto& known : kWords) {
    if (const auto& word = answer.*known.member) add(known.name, *word);
  }
  for (size_t i = 0; i < kSamplingKeyCount; ++i) {
    if (answer.sampling[i]) add_real(sampling_keys()[i].name, *answer.sampling[i]);
  }
  if (answer.seed) add("seed", static_cast<int64_t>(*answer.seed));
  if (answer.length_penalty) add("length_penalty", *answer.length_penalty);
  for (const auto& known : kTexts) add_list(known.name, answer.*known.member);
  for (const auto& known : kIds) add_list(known.name, answer.*known.member);
  add_list("logit_bias", answer.logit_bias);
  add_list("params", answer.params);
  return all;
}

}  // namespace tenon
