#include "core/plugin/facts/fact_words.h"

#include <algorithm>
#include <span>

#include "core/base/text.h"

namespace tenon {

bool has_word(const Fact& fact, std::string_view word) {
  return std::ranges::count(split(fact.words, ' '), word) > 0;
}

bool requires_word(const PluginDescriptor& descriptor, std::string_view key,
                   std::string_view word) {
  return std::ranges::any_of(
      std::span(descriptor.requirements, descriptor.requirement_count),
      [&](const Fact& fact) { return fact.key == key && has_word(fact, word); });
}

}  // namespace tenon
