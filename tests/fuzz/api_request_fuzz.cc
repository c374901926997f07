// Any bytes as a request's body, to every endpoint that reads one. The first byte chooses which.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/server/api/dialects.h"
#include "core/server/api/read/other_calls.h"
#include "core/server/api/write/writer.h"
#include "tests/fuzz/target.h"

namespace {

using namespace tenon;
using namespace tenon::api;

template <typename T>
bool taken(const Outcome<T>& call) {
  if (call.ok()) return true;
  if (call.error().status != 400 || call.error().message.empty()) std::abort();
  // An error is always JSON, whatever of the body it shows.
  if (!Json::accept(error_json(call.error()))) std::abort();
  return false;
}

void check(const AnswerSettings& answer) {
  SamplingParams params;
  apply_values(answer.sampling, params);
  for (const SamplingKey& key : sampling_keys()) {
    if (!sampling_fault(key, params).empty()) std::abort();
  }
  if (answer.samples && (*answer.samples == 0 || *answer.samples > kMostSamples)) std::abort();
  if (answer.max_tokens && *answer.max_tokens == 0) std::abort();
}

// What a call of this kind could be answered with.
void write(const GenerationCall& call, std::string_view text) {
  if (call.answer.samples.value_or(1) > 64 || call.prompts.size() > 64) return;
  WriterContext context;
  context.call = &call;
  context.id = "resp_x-1";
  context.token_text = [&](TokenId) { return std::string(text); };
  const auto writer = make_writer(std::move(context));
  std::string out;
  AnswerEvent event;
  event.text = text;
  event.tokens = {{1, -1.0f, {{1, -1.0f}}}};
  writer->take(event, out);
  event.kind = AnswerEvent::Kind::end;
  event.text.clear();
  writer->take(event, out);
  if (call.stream && out.empty()) std::abort();
  writer->finish(out);
  if (!call.stream && !Json::accept(out)) std::abort();
}

int generate(const Outcome<GenerationCall>& call, std::string_view text) {
  if (!taken(call)) return 0;
  check(call->answer);
  write(*call, text.substr(0, 64));
  return 0;
}

}  // namespace

TENON_FUZZ_TARGET(api_request, const uint8_t* data, size_t size) {
  if (size == 0 || size > 65536) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto body = parse_body(text);
  if (!taken(body)) return 0;
  switch (data[0] % 8) {
    case 0:
      return generate(read_completion(*body), text);
    case 1:
      return generate(read_chat(*body), text);
    case 5:
      return generate(read_messages_call(*body), text);
    case 6:
      return generate(read_messages_call(*body, true), text);
    case 7:
      return generate(read_responses_call(*body), text);
    case 2:
      (void)taken(read_embedding(*body));
      break;
    case 3:
      (void)taken(read_tokenize(*body));
      break;
    default:
      (void)taken(read_detokenize(*body));
  }
  return 0;
}
