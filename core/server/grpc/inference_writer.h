// What an engine says of a request, as frames (frames.h) of vllm.GenerateResponse.
#pragma once

#include <memory>

#include "core/server/api/write/writer.h"

namespace tenon::server {

// What a client wants to be told of prompt and answer.
struct InferenceTold {
  bool prompt_ids = false, prompt_scores = false;
  uint32_t prompt_candidates = 0;
  bool text = true, ids = false, scores = false;
  uint32_t candidates = 0;
};

// Of a call with one prompt, and without `stream` with one sample.
std::unique_ptr<api::AnswerWriter> make_inference_writer(api::WriterContext context,
                                                         const InferenceTold& told);

}  // namespace tenon::server
