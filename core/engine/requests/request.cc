#include "core/engine/requests/request.h"

namespace tenon {

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::length:
      return "length";
    case FinishReason::stop:
      return "stop";
    case FinishReason::eos:
      return "eos";
    case FinishReason::pooled:
      return "pooled";
    case FinishReason::cancelled:
      return "cancelled";
    case FinishReason::error:
      return "error";
    case FinishReason::uncached:
      return "uncached";
  }
  return "?";
}

std::vector<TokenId> ResultSink::Sample::ids() const {
  std::vector<TokenId> ids;
  for (const Token& token : tokens) ids.push_back(token.token);
  return ids;
}

namespace {

ResultSink::Token kept(const GeneratedToken& token) {
  return {token.token, token.logprob, token.rank, {token.top.begin(), token.top.end()}};
}

}  // namespace

ResultSink::Sample& ResultSink::at(uint32_t sample) {
  if (sample >= samples_.size()) samples_.resize(sample + 1);
  return samples_[sample];
}

void ResultSink::on_delta(const RequestDelta& delta) {
  Sample& sample = at(delta.sample);
  sample.text += delta.text;
  for (const GeneratedToken& token : delta.tokens) sample.tokens.push_back(kept(token));
}

void ResultSink::on_prompt(const PromptDelta& delta) {
  for (const GeneratedToken& token : delta.tokens) prompt_.push_back(kept(token));
}

void ResultSink::on_embedding(const Embedding& embedding) {
  embedding_.assign(embedding.values.begin(), embedding.values.end());
  at(0);
}

void ResultSink::on_end(const RequestEnd& end) {
  Sample& sample = at(end.sample);
  sample.ended = true;
  sample.reason = end.reason;
  sample.message = end.message;
  sample.stop = end.stop;
  sample.blame = end.blame;
  if (end.record != nullptr) sample.record = *end.record;
}

}  // namespace tenon
