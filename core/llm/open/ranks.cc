#include "core/llm/open/ranks.h"

#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "core/base/log.h"
#include "core/exec/ranks/leading_executor.h"
#include "core/llm/open/open_pipeline.h"
#include "core/parallel/message.h"

namespace tenon::llm {
namespace {

Collective*& program_ranks() {
  static Collective* ranks = nullptr;
  return ranks;
}

// The configuration as rank 0 resolved it: files that it extends, overrides and all.
struct OpenMessage {
  std::string text, path, folder;
  bool shares_weights = false;
  std::optional<uint32_t> replica;
  std::vector<std::string> plugin_path;
};

OpenMessage read_open(MessageReader& message) {
  OpenMessage made;
  made.text = message.text();
  made.path = message.text();
  made.folder = message.text();
  made.shares_weights = message.number<uint8_t>() != 0;
  const auto replica = message.number<uint32_t>();
  if (message.number<uint32_t>() > 1) made.replica = replica;
  const auto count = message.number<uint64_t>();
  for (uint64_t i = 0; i < count && i < 1000; ++i) made.plugin_path.push_back(message.text());
  return made;
}

// Rank 0 alone plans, drafts and samples; what serves that is made here only because a pipeline
// has it.
Result<OpenedPipeline> open_to_follow(const OpenMessage& message, SharedWeights& weights) {
  TENON_ASSIGN_OR_RETURN(
      PipelineConfig config,
      parse_pipeline_config(message.text, "rank 0's pipeline", message.folder, {}));
  config.path = message.path;
  config.drafter.reset();
  config.draft_model_path = {};
  config.draft_text_path = {};
  config.guard = {};
  return open_pipeline(
      std::move(config), message.plugin_path,
      {.shared = message.shares_weights ? &weights : nullptr, .replica = message.replica});
}

}  // namespace

void set_ranks_of_program(Collective* ranks) {
  program_ranks() = ranks;
}
Collective* ranks_of_program() {
  return program_ranks();
}

Status tell_ranks(const PipelineRequest& request, const std::vector<std::string>& plugin_path) {
  if (request.ranks == nullptr || request.ranks->rank() != 0) return {};
  std::error_code error;
  MessageWriter message;
  message.number(RankMessage::open);
  message.number<uint64_t>(0);
  message.text(resolved_toml(request.config, {}, false));
  message.text(request.config.path);
  message.text(std::filesystem::current_path(error).string());
  message.number<uint8_t>(request.shared_weights != nullptr ? 1 : 0);
  message.number(request.replica);
  message.number(request.replicas);
  message.number<uint64_t>(plugin_path.size());
  for (const std::string& folder : plugin_path) message.text(folder);
  return request.ranks->send(message.bytes());
}

Status dismiss_ranks(Collective& ranks) {
  MessageWriter message;
  message.number(RankMessage::end);
  message.number<uint64_t>(0);
  return ranks.send(message.bytes());
}

Status follow_ranks(Collective& ranks) {
  set_ranks_of_program(&ranks);
  SharedWeights weights;
  struct Followed {
    explicit Followed(OpenedPipeline opened)
        : pipeline(std::move(opened)), steps(*pipeline.pipeline->executor) {}
    OpenedPipeline pipeline;
    StepFollower steps;
  };
  std::map<uint64_t, std::unique_ptr<Followed>> pipelines;
  for (;;) {
    TENON_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, ranks.receive());
    MessageReader message(bytes);
    const auto kind = message.number<RankMessage>();
    const auto number = message.number<uint64_t>();
    if (kind == RankMessage::end) return {};
    if (kind == RankMessage::close) {
      pipelines.erase(number);
      continue;
    }
    if (kind == RankMessage::open) {
      auto opened = open_to_follow(read_open(message), weights);
      if (opened.ok()) {
        pipelines[ranks.pipelines()] = std::make_unique<Followed>(*std::move(opened));
      }
      continue;
    }
    const auto found = pipelines.find(number);
    if (found == pipelines.end()) return internal("rank 0 speaks of a pipeline that is not open");
    // Rank 0 hears of it by the marks of an exchange, or has the same error itself.
    const Status done = found->second->steps.follow(kind, message);
    if (!done.ok()) log(LogLevel::error, "ranks", message_of(done));
  }
}

}  // namespace tenon::llm
