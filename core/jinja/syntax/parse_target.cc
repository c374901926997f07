// What is given a value: names, parameters, attributes of namespaces.
#include <algorithm>

#include "core/base/quote.h"
#include "core/jinja/syntax/parser_state.h"

namespace tenon::chat {

Symbol SymbolTable::intern(const std::string& name) {
  const auto [found, is_new] = symbols_.emplace(name, static_cast<Symbol>(names_.size()));
  if (is_new) names_.push_back(name);
  return found->second;
}

const Symbol* SymbolTable::find(const std::string& name) const {
  const auto found = symbols_.find(name);
  return found == symbols_.end() ? nullptr : &found->second;
}

Status Parser::parse_parameters(Parameters& parameters) {
  TENON_RETURN_IF_ERROR(stream_.expect_symbol("("));
  while (!stream_.is_symbol(")")) {
    if (!parameters.names.empty()) TENON_RETURN_IF_ERROR(stream_.expect_symbol(","));
    TENON_ASSIGN_OR_RETURN(Target name, parse_one_target(/*with_namespace=*/false));
    if (name.is_tuple) return stream_.unexpected("a parameter's name");
    parameters.names.push_back(std::move(name));
    if (stream_.skip_symbol("=")) {
      TENON_ASSIGN_OR_RETURN(ExpressionPtr value, parse_expression());
      parameters.defaults.push_back(std::move(value));
    } else if (!parameters.defaults.empty()) {
      return stream_.unexpected("a default, as the parameter before has one");
    }
  }
  stream_.next();
  return Status();
}

// A name, or several with commas.
Result<Target> Parser::parse_target(bool with_namespace) {
  const Position at = stream_.current().at;
  TENON_ASSIGN_OR_RETURN(Target first, parse_one_target(with_namespace));
  if (!stream_.is_symbol(",")) return first;
  Target tuple;
  tuple.at = at;
  tuple.is_tuple = true;
  tuple.parts.push_back(std::move(first));
  while (stream_.skip_symbol(",")) {
    if (stream_.is_name("in") || stream_.is_symbol("=") || stream_.is_symbol(")")) break;
    TENON_ASSIGN_OR_RETURN(Target more, parse_one_target(with_namespace));
    tuple.parts.push_back(std::move(more));
  }
  return tuple;
}

Result<Target> Parser::parse_one_target(bool with_namespace) {
  if (stream_.is_symbol("(") && nesting_ < kDeepestBlocks) {
    Restored<uint32_t> nesting(nesting_, nesting_ + 1);
    stream_.next();
    TENON_ASSIGN_OR_RETURN(Target inside, parse_target(with_namespace));
    TENON_RETURN_IF_ERROR(stream_.expect_symbol(")"));
    return inside;
  }
  Target target;
  target.at = stream_.current().at;
  TENON_ASSIGN_OR_RETURN(const Token name, stream_.expect_name());
  static constexpr std::string_view kReserved[] = {"true", "false", "none",
                                                   "True", "False", "None"};
  if (std::find(std::begin(kReserved), std::end(kReserved), name.text) != std::end(kReserved)) {
    return invalid_argument(to_string(name.at) + ": " + in_quotes(name.text) +
                            " cannot be given a value");
  }
  target.name = name.text;
  if (with_namespace && stream_.skip_symbol(".")) {
    TENON_ASSIGN_OR_RETURN(const Token attribute, stream_.expect_name());
    target.attribute = attribute.text;
    attributes_.insert(attribute.text);
    target.symbol = result_.symbols.intern(name.text);
  } else {
    target.symbol = bind(name.text);
  }
  return target;
}

}  // namespace tenon::chat
