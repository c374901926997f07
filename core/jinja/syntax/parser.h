// From tokens to a template: Jinja's grammar, as far as chat templates use it.
//
// All that a template names is looked up here: a tag, a filter, a test, a method or a function that
// we do not have is refused before anything is rendered.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/jinja/syntax/syntax.h"

namespace tenon::chat {

// Errors, each led by line and column: invalid_argument (not the language), unsupported (Jinja has
// it, or a newer version may, and we do not).
Result<Template> parse_template(std::string_view source);

}  // namespace tenon::chat
