// Whether the names that a template uses exist.
#include "core/base/quote.h"
#include "core/base/text.h"
#include "core/jinja/run/builtins.h"
#include "core/jinja/syntax/parser_state.h"

namespace tenon::chat {

void Parser::may_be_skipped(size_t since) {
  for (size_t i = since; i < uses_.size(); ++i) uses_[i].is_reached = false;
}

// Empty where the name is known.
std::string Parser::fault_of(const NameUse& use) const {
  switch (use.kind) {
    case NameUse::Kind::filter:
      return no_such_filter(use.name);
    case NameUse::Kind::test:
      return no_such_test(use.name);
    case NameUse::Kind::function:
      if (use.name == "caller" || use.name == "loop" || bound_.contains(use.name) ||
          find_function(use.name) != nullptr) {
        return {};
      }
      return "there is no function " + in_quotes(use.name) +
             ", and the template makes none of that name";
    case NameUse::Kind::method:
      if (is_method_name(use.name) || attributes_.contains(use.name)) return {};
      return "no value has a method " + in_quotes(use.name) +
             did_you_mean(use.name, method_names());
  }
  return {};
}

Status Parser::check_names() {
  for (const NameUse& use : uses_) {
    const std::string fault = fault_of(use);
    if (fault.empty()) continue;
    std::string text = to_string(use.at) + ": " + fault;
    if (use.is_reached) return unsupported(std::move(text));
    result_.unknown.push_back(std::move(text));
  }
  return Status();
}

}  // namespace tenon::chat
