#include "core/config/answer_settings.h"

namespace tenon {

AnswerSettings overlaid(AnswerSettings first, const AnswerSettings& then) {
  const auto complete = [](auto& value, const auto& otherwise) {
    if (!value) value = otherwise;
  };
  for (size_t i = 0; i < kSamplingKeyCount; ++i) complete(first.sampling[i], then.sampling[i]);
  for (const AnswerNumber& key : kAnswerNumbers) complete(first.*key.member, then.*key.member);
  for (const AnswerFlag& key : kAnswerFlags) complete(first.*key.member, then.*key.member);
  for (const AnswerText& key : kAnswerTexts) complete(first.*key.member, then.*key.member);
  complete(first.seed, then.seed);
  complete(first.length_penalty, then.length_penalty);
  for (const AnswerTexts& key : kAnswerTextLists) {
    if ((first.*key.member).empty()) first.*key.member = then.*key.member;
  }
  for (const AnswerTokens& key : kAnswerTokenLists) {
    if ((first.*key.member).empty()) first.*key.member = then.*key.member;
  }
  if (first.logit_bias.empty()) first.logit_bias = then.logit_bias;
  if (first.params.empty()) first.params = then.params;
  return first;
}

}  // namespace tenon
