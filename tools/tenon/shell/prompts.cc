#include "tools/tenon/shell/prompts.h"

#include "core/base/files/given_text.h"
#include "core/base/text.h"
#include "core/request/parameters.h"
#include "tools/tenon/process/progress.h"

namespace tenon {
namespace {

Result<Prompt> read_prompt_stdin() {
  Prompt prompt;
  TENON_ASSIGN_OR_RETURN(prompt.text, read_standard_input());
  if (!prompt.text.empty() && prompt.text.back() == '\n') prompt.text.pop_back();
  return prompt;
}

}  // namespace

Result<std::vector<Prompt>> gather_prompts(const std::optional<std::string>& prompt,
                                           const std::string& file) {
  if (!file.empty()) return read_prompt_file(file);
  if (prompt && *prompt != "-") {
    std::vector<Prompt> prompts(1);
    prompts[0].text = *prompt;
    return prompts;
  }
  if (!prompt && stdin_is_terminal()) {
    return invalid_argument(
        "there is no prompt; give one as argument, on standard input, or with --file");
  }
  TENON_ASSIGN_OR_RETURN(Prompt read, read_prompt_stdin());
  return std::vector<Prompt>{std::move(read)};
}

Result<std::vector<TokenId>> parse_token_list(std::string_view text) {
  const auto entries = list_entries(text);
  if (!entries) {
    return invalid_argument(
        "the list of token ids has an empty entry – ids are separated by one comma, or by white "
        "space – take a comma out");
  }
  std::vector<TokenId> tokens;
  for (const std::string_view entry : *entries) {
    const WrittenNumber written = written_number(entry);
    if (std::string fault = number_fault(whole_number("a token id", 0, kMostTokenId), written);
        !fault.empty()) {
      return invalid_argument(fault);
    }
    tokens.push_back(static_cast<TokenId>(std::get<int64_t>(written)));
  }
  return tokens;
}

}  // namespace tenon
