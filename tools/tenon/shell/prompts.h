// What to run, as a command was given it: prompts from the command line, standard input or a file.
#pragma once

#include <tenon/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/workload/prompts.h"

namespace tenon {

// One prompt as an argument ("-": standard input), a file of them, or nothing, which is standard
// input too. The line end that shells and editors put after a text is not part of it.
Result<std::vector<Prompt>> gather_prompts(const std::optional<std::string>& prompt,
                                           const std::string& file);
// Token ids separated by commas or white space; there may be none. Errors: invalid_argument, for an
// entry that is no id and for an empty one ("1,,2").
Result<std::vector<TokenId>> parse_token_list(std::string_view text);

}  // namespace tenon
