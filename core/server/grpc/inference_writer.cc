#include "core/server/grpc/inference_writer.h"

#include <vllm/inference.pb.h>

#include <algorithm>

#include "core/base/utf8.h"
#include "core/server/grpc/frames.h"
#include "core/server/grpc/struct_json.h"

namespace tenon::server {
namespace {

using api::AnswerEvent;
using api::AnswerToken;

void put_candidates(const AnswerToken& token, uint32_t count, vllm::CandidateTokenInfo& out) {
  for (size_t i = 0; i < token.top.size() && i < count; ++i) {
    if (token.top[i].token == token.id) continue;
    vllm::CandidateTokenInfo::TokenInfo& candidate = *out.add_tokens();
    candidate.set_id(token.top[i].token);
    candidate.set_logprob(token.top[i].logprob);
    candidate.set_rank(static_cast<uint32_t>(i + 1));
  }
}

// Messages hold text: a byte that belongs to no character is U+FFFD, as in JSON.
void append_text(std::string_view bytes, std::string& out) {
  for (size_t end; !bytes.empty(); bytes.remove_prefix(std::min(end + 1, bytes.size()))) {
    end = utf8_until(bytes);
    out.append(bytes.substr(0, end));
    if (end < bytes.size()) out += "\uFFFD";
  }
}

// Into a PromptInfo or a SequenceOutput.
template <typename Message>
void put_scores(const std::vector<AnswerToken>& tokens, uint32_t candidates, Message& out) {
  for (const AnswerToken& token : tokens) {
    out.add_logprobs(token.logprob);
    out.add_ranks(token.rank);
    if (candidates > 0) put_candidates(token, candidates, *out.add_candidate_tokens());
  }
}

vllm::FinishInfo::FinishReason reason_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
    case FinishReason::eos:
      return vllm::FinishInfo::STOP;
    case FinishReason::cancelled:
      return vllm::FinishInfo::ABORTED;
    case FinishReason::length:
    case FinishReason::pooled:
    case FinishReason::error:
    case FinishReason::uncached:
      break;
  }
  return vllm::FinishInfo::LENGTH;
}

class InferenceWriter final : public api::AnswerWriter {
 public:
  InferenceWriter(api::WriterContext context, const InferenceTold& told)
      : context_(std::move(context)),
        told_(told),
        last_(context_.call->answer.samples.value_or(1), kNoToken) {}

  void take(const AnswerEvent& event, std::string& out) override {
    if (event.kind == AnswerEvent::Kind::prompt) {
      prompt_.insert(prompt_.end(), event.tokens.begin(), event.tokens.end());
      return;
    }
    if (!event.ids.empty()) last_.at(event.sample) = event.ids.back();
    note(event);
    if (problem()) return;
    vllm::GenerateResponse response;
    vllm::GenerateResponse& piece = context_.call->stream ? response : whole_;
    if (!has_begun_) put_prompt(*piece.mutable_prompt_info());
    if (!has_begun_ && context_.call->stream) append(piece, out), piece.Clear();
    has_begun_ = true;
    put(event, *piece.mutable_outputs());
    if (context_.call->stream) append(piece, out);
  }

  void finish(std::string& out) override {
    if (!context_.call->stream) append(whole_, out);
  }

  void fail(const api::ApiError& error, std::string& out) override {
    append_frame(out, {.bytes = error.message, .failure = error.status});
  }

 private:
  static void append(const vllm::GenerateResponse& response, std::string& out) {
    append_frame(out, {.bytes = response.SerializeAsString()});
  }

  void put_prompt(vllm::PromptInfo& out) const {
    out.set_num_prompt_tokens(static_cast<uint32_t>(context_.prompt_ids.size()));
    for (const TokenId id : context_.prompt_ids) {
      if (told_.prompt_ids) out.add_token_ids(id);
    }
    if (told_.prompt_scores) put_scores(prompt_, told_.prompt_candidates, out);
  }

  void put(const AnswerEvent& event, vllm::SequenceOutput& out) const {
    out.set_index(event.sample);
    if (told_.text) append_text(event.text, *out.mutable_text());
    out.set_num_tokens(out.num_tokens() + static_cast<uint32_t>(event.ids.size()));
    for (const TokenId id : event.ids) {
      if (told_.ids) out.add_token_ids(id);
    }
    if (told_.scores) put_scores(event.tokens, told_.candidates, out);
    if (event.kind == AnswerEvent::Kind::end) put_end(event, *out.mutable_finish_info());
  }

  void put_end(const AnswerEvent& end, vllm::FinishInfo& out) const {
    out.set_num_output_tokens(end.generated_tokens);
    out.set_num_cached_tokens(end.cached_tokens);
    out.set_finish_reason(reason_of(end.reason));
    if (!context_.kv_transfer.is_null()) {
      *out.mutable_kv_transfer_params() = struct_of(context_.kv_transfer);
    }
    const TokenId last = last_.at(end.sample);
    if (end.reason == FinishReason::eos) {
      out.set_eos_token_id(last);
    } else if (end.reason == FinishReason::stop && end.stop.empty()) {
      out.set_stop_token_id(last);
    } else if (end.reason == FinishReason::stop) {
      out.set_stop_string(end.stop);
    }
  }

  const api::WriterContext context_;
  const InferenceTold told_;
  std::vector<AnswerToken> prompt_;
  std::vector<TokenId> last_;  // of each sample
  bool has_begun_ = false;
  vllm::GenerateResponse whole_;  // without `stream`
};

}  // namespace

std::unique_ptr<api::AnswerWriter> make_inference_writer(api::WriterContext context,
                                                         const InferenceTold& told) {
  return std::make_unique<InferenceWriter>(std::move(context), told);
}

}  // namespace tenon::server
