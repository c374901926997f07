// A pipeline as it is served: under a name, with the template for its conversations.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/chat/answers/answer_format.h"
#include "core/chat/chat_template.h"
#include "core/llm/engine_host.h"
#include "core/server/api/call.h"
#include "core/server/api/write/answer_parts.h"
#include "core/server/api/write/error.h"
#include "core/server/api/write/events.h"
#include "core/server/models/adapter_places.h"
#include "core/server/models/replicas.h"
#include "core/server/steps/step_feed.h"

namespace tenon::server {

struct ServedModel {
  std::shared_ptr<void> holds = {};  // keeps `pipeline` there; null: somebody else does
  std::string name;
  Pipeline* pipeline = nullptr;      // borrowed
  std::optional<ChatTemplate> chat;  // absent: `chat_problem` says why
  std::string chat_problem;
  api::AnswerReaderFactory reader = {};  // of answers, as the template says; empty: plain text
  bool reads_calls = false;              // of tools
  ReasoningFormat reasoning = ReasoningFormat::none;
  Pooling pooling = Pooling::last;  // of embeddings; none: `pooling_problem` says why
  bool normalise = true;
  std::string pooling_problem;
  int64_t created = 0;  // seconds since 1970
  bool random_seeds = false;
  std::string tokenizer_info = {};          // JSON, as /tokenizer_info gives it
  std::atomic<uint64_t> cache_epoch = {0};  // K/V of earlier ones is not looked for any more
  std::string weights = {};                 // as ModelNeeds::weights; empty: not known
  uint64_t weight_bytes = 0;                // that it takes of the host's memory
  uint64_t kv_bytes = 0;
  std::unique_ptr<AdapterPlaces> adapters = {};  // that requests load; null: they may not
  // Of the engines that serve it: which one this is, of how many. All but the first know their
  // pipeline and their engine alone; texts are the first one's.
  uint32_t rank = 0;
  uint32_t replicas = 1;
  bool cores_apart = true;  // each of them has a share of the process's cores
  std::vector<std::unique_ptr<ServedModel>> others = {};  // of the first: those of rank 1, 2, …
  std::unique_ptr<Replicas> group = {};                   // of the first, once its engines begin
  std::unique_ptr<StepFeed> feed;                         // of its engine
  std::unique_ptr<llm::EngineHost> host;

  // Of the first: its engines by rank, itself among them.
  ServedModel& engine(uint32_t of_rank) { return of_rank == 0 ? *this : *others[of_rank - 1]; }
  std::vector<ServedModel*> engines();
};

// Another engine of a model, of rank `rank`.
std::unique_ptr<ServedModel> another_replica(const ServedModel& first, Pipeline& pipeline,
                                             uint32_t rank);

// What only the model's files say: template and pooling. `template_file` is used in place of the
// model's own, where it is not empty. Error: a template that is there and is not understood.
Result<std::unique_ptr<ServedModel>> open_served_model(std::string name, Pipeline& pipeline,
                                                       const std::string& template_file);

// Whether the model has a template of its own that is understood.
bool has_chat_template(const Pipeline& pipeline);
// Reads what open_served_model() is given as `template_file`. Errors: those of a file that cannot
// be read, and of ChatTemplate::parse().
Result<ChatTemplate> read_chat_template(const std::string& file);

// The tokens of one of a call's prompts, or of its conversation. Errors: status 400.
api::Outcome<std::vector<TokenId>> encode_input(const ServedModel& model,
                                                const api::PromptInput& input, bool add_special);
struct EncodedChat {
  std::string text;
  std::vector<TokenId> tokens;
};
api::Outcome<EncodedChat> encode_conversation(const ServedModel& model, const ChatInput& chat,
                                              const ChatOptions& options);
// Likewise; a conversation that the template refuses is told by the dialect's name for it.
api::Outcome<EncodedChat> encode_conversation(const ServedModel& model,
                                              const api::GenerationCall& call);
// What K/V of a request may be shared with: requests of the same salt since the cache was flushed,
// with the same of the adapters that requests loaded (null: with none of them).
uint64_t cache_salt_of(const ServedModel& model, const std::string& salt,
                       const AdapterIdentity* adapter = nullptr);
uint64_t cache_salt_of(const ServedModel& model, const std::string& salt,
                       const AdapterPlaces::Held& adapter);
// The one that a request names, among those that requests loaded. Null: it names none of these.
AdapterPlaces::Held loaded_adapter(const ServedModel& model, const std::string& name);
// Has an engine's request use it. Error: status 400, of a name that no adapter has, where the
// engine itself could not list what there is.
std::optional<api::ApiError> use_adapter(const ServedModel& model,
                                         const AdapterPlaces::Held& adapter, Request& request);
// A token's bytes; of a special token its spelling.
api::TokenText token_text_of(const ServedModel& model);

}  // namespace tenon::server
