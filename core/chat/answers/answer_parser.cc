#include "core/chat/answers/answer_parser.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "core/chat/answers/answer_machine.h"
#include "core/tokenizer/tokenizer.h"

namespace tenon {
namespace {

// Enough for a tokenizer to know that the answer is not the beginning of a text.
constexpr size_t kContextTokens = 8;

bool is_harmony(const AnswerFormat& format) {
  return format.calls == ToolCallFormat::harmony || format.reasoning == ReasoningFormat::harmony;
}

chat::OutputOptions output_options(const AnswerOptions& options) {
  return {.whole_calls = options.whole_calls,
          .id_seed = options.id_seed,
          .ids = options.format.calls == ToolCallFormat::mistral ? chat::IdStyle::nine_long
                                                                 : chat::IdStyle::long_id};
}

}  // namespace

// Text of the answer may come later than the tokens that it is made of, so special tokens wait for
// theirs: each comes after a number of bytes, which a detokenizer of our own counts.
class AnswerParser::Impl {
 public:
  Impl(chat::Tools tools, const AnswerOptions& options, const Tokenizer* tokenizer,
       std::span<const TokenId> prompt_ids)
      : tools_(std::move(tools)), output_(output_options(options)) {
    chat::MarkerTexts specials;
    if (tokenizer != nullptr) {
      for (const std::string_view marker : chat::all_markers(options.format)) {
        const auto id = tokenizer->find(marker);
        if (!id || !tokenizer->is_special(*id)) continue;
        specials.push_back(marker);
        special_ids_.emplace_back(*id, marker);
      }
    }
    machine_ = is_harmony(options.format)
                   ? chat::harmony_answer(tools_, options.prompt, specials)
                   : chat::marked_answer(options.format, tools_, options.prompt, specials);
    const bool may_think = options.format.reasoning != ReasoningFormat::none;
    if (tokenizer == nullptr || (special_ids_.empty() && !may_think)) return;
    counter_.emplace(*tokenizer);
    const size_t known = std::min(prompt_ids.size(), kContextTokens);
    for (const TokenId id : prompt_ids.last(known)) static_cast<void>(counter_->push(id));
  }

  void push(std::string_view text, std::span<const TokenId> tokens, std::vector<AnswerDelta>& out) {
    output_.deliver_to(out);
    for (const TokenId id : tokens) count(id);
    for (const char c : text) {
      pass_tokens();
      machine_->push(c, output_);
      ++text_bytes_;
    }
    pass_tokens();
  }

  void finish(std::vector<AnswerDelta>& out) {
    output_.deliver_to(out);
    pass_tokens();
    // Tokens of which a stop text took the rest.
    for (const Waiting& waiting : waiting_) count_thought(waiting);
    machine_->finish(output_);
  }

  bool called() const { return output_.called(); }
  uint32_t reasoning_tokens() const { return reasoning_tokens_; }

 private:
  struct Waiting {
    size_t behind_bytes;
    std::string_view marker;  // empty: a token begins
  };

  void count(TokenId id) {
    if (!counter_) return;
    waiting_.push_back({counted_bytes_, {}});
    counted_bytes_ += counter_->push(id).size();
    const auto found = std::find_if(special_ids_.begin(), special_ids_.end(),
                                    [id](const auto& known) { return known.first == id; });
    if (found != special_ids_.end()) waiting_.push_back({counted_bytes_, found->second});
  }

  // A token is certain to stand here once the bytes before it were there.
  void pass_tokens() {
    while (!waiting_.empty() && waiting_.front().behind_bytes <= text_bytes_) {
      const Waiting here = waiting_.front();
      waiting_.pop_front();
      count_thought(here);
      if (!here.marker.empty()) machine_->special(here.marker, output_);
    }
  }
  void count_thought(const Waiting& here) {
    if (here.marker.empty() && machine_->is_reasoning()) ++reasoning_tokens_;
  }

  chat::Tools tools_;
  chat::AnswerOutput output_;
  std::unique_ptr<chat::AnswerMachine> machine_;
  std::vector<std::pair<TokenId, std::string_view>> special_ids_;
  std::optional<StreamingDetokenizer> counter_;  // where there are any
  size_t counted_bytes_ = 0, text_bytes_ = 0;
  uint32_t reasoning_tokens_ = 0;
  std::deque<Waiting> waiting_;
};

AnswerParser::AnswerParser(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AnswerParser::AnswerParser(AnswerParser&&) noexcept = default;
AnswerParser& AnswerParser::operator=(AnswerParser&&) noexcept = default;
AnswerParser::~AnswerParser() = default;

Result<AnswerParser> AnswerParser::make(const AnswerOptions& options, const Tokenizer* tokenizer,
                                        std::span<const TokenId> prompt_ids) {
  TENON_ASSIGN_OR_RETURN(chat::Tools tools, chat::Tools::read(options.tools));
  return AnswerParser(std::make_unique<Impl>(std::move(tools), options, tokenizer, prompt_ids));
}

void AnswerParser::push(std::string_view text, std::vector<AnswerDelta>& out) {
  impl_->push(text, {}, out);
}

void AnswerParser::push(std::string_view text, std::span<const TokenId> tokens,
                        std::vector<AnswerDelta>& out) {
  impl_->push(text, tokens, out);
}

void AnswerParser::finish(std::vector<AnswerDelta>& out) {
  impl_->finish(out);
}

bool AnswerParser::called() const {
  return impl_->called();
}

uint32_t AnswerParser::reasoning_tokens() const {
  return impl_->reasoning_tokens();
}

void Answer::add(const AnswerDelta& delta) {
  switch (delta.part) {
    case AnswerPart::content:
      content += delta.text;
      break;
    case AnswerPart::reasoning:
      reasoning += delta.text;
      break;
    case AnswerPart::tool_call_begin:
      calls.push_back({delta.id, delta.name, {}});
      break;
    case AnswerPart::tool_arguments:
      calls.back().arguments += delta.text;
      break;
    case AnswerPart::tool_call_end:
      break;
    case AnswerPart::tool_call_broken:
      calls.pop_back();
      content += delta.text;
      break;
  }
}

Result<Answer> parse_answer(std::string_view text, const AnswerOptions& options) {
  TENON_ASSIGN_OR_RETURN(AnswerParser parser, AnswerParser::make(options));
  std::vector<AnswerDelta> deltas;
  parser.push(text, deltas);
  parser.finish(deltas);
  Answer answer;
  for (const AnswerDelta& delta : deltas) answer.add(delta);
  return answer;
}

}  // namespace tenon
