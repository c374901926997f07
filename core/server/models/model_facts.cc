#include "core/server/models/model_facts.h"

#include <cmath>

#include "core/base/files/mapped_file.h"
#include "core/base/json/json_builder.h"
#include "core/base/presence.h"
#include "core/server/api/read/json.h"

namespace tenon::server {
namespace {

using api::Json;

// An added token is an object in the file, and a text to whoever asks.
Json with_plain_tokens(const Json& value) {
  if (value.is_array()) {
    Json items = Json::array();
    for (const Json& item : value) items.push_back(with_plain_tokens(item));
    return items;
  }
  if (!value.is_object()) return value;
  const auto content = value.find("content");
  if (content != value.end() && content->is_string()) return *content;
  Json::object_t members;  // its operator[] would compare each key with all before it
  for (const auto& [name, item] : value.items()) {
    members.emplace_back(name, with_plain_tokens(item));
  }
  return members;
}

// Null where there is none, or none that can be read.
Json tokenizer_config_of(const std::string& folder) {
  const std::string file = folder + "/tokenizer_config.json";
  if (!is_there(file)) return Json();
  const Result<std::string> text = read_text_file(file);
  Json config;
  if (!text.ok() || build_json(*text, {}, config).kind != JsonFault::Kind::none) return Json();
  return config.is_object() ? with_plain_tokens(config) : Json();
}

void put_token(const Tokenizer& tokenizer, const char* name, std::optional<TokenId> token,
               Json& info) {
  if (token) info[name] = tokenizer.piece(*token);
}

const KvGroupGeometry* blocks_of(const EngineParts& parts) {
  if (parts.geometry.group_count == 0) return nullptr;
  return &parts.geometry.groups[parts.shape->ledger_group];
}

// To three digits, as SGLang gives it.
double gibibytes(uint64_t bytes) {
  return std::round(static_cast<double>(bytes) / (1 << 30) * 1000.0) / 1000.0;
}

Json member_of(const Json& config, const char* name) {
  const auto found = config.find(name);
  return found == config.end() ? Json() : *found;
}

}  // namespace

std::string tokenizer_info_json(const ServedModel& model) {
  const Tokenizer* tokenizer = model.pipeline->tokenizer.get();
  Json info = tokenizer_config_of(model.pipeline->model->path);
  if (info.is_null() && tokenizer != nullptr) {
    put_token(*tokenizer, "bos_token", tokenizer->bos(), info);
    put_token(*tokenizer, "eos_token", tokenizer->eos(), info);
  }
  for (const char* file : {"vocab_file", "merges_file"}) {
    if (info.is_object()) info.erase(file);
  }
  if (member_of(info, "tokenizer_class").is_null()) info["tokenizer_class"] = "Tokenizer";
  if (model.chat) info["chat_template"] = model.chat->source("default");
  return api::to_text(info);
}

std::string model_info_json(const ServedModel& model) {
  const std::string& path = model.pipeline->model->path;
  const Json config = api::from_text(model.pipeline->model->config_json);
  return api::to_text({{"model_path", path},
                       {"served_model_name", model.name},
                       {"tokenizer_path", path},
                       {"is_generation", true},
                       {"preferred_sampling_params", nullptr},
                       {"has_image_understanding", false},
                       {"has_audio_understanding", false},
                       {"model_type", member_of(config, "model_type")},
                       {"architectures", member_of(config, "architectures")}});
}

std::string server_info_json(const ServedModel& model, const std::string& version) {
  const Pipeline& pipeline = *model.pipeline;
  const EngineParts& parts = model.host->parts();
  const KvGroupGeometry* blocks = blocks_of(parts);
  const uint64_t tokens = blocks == nullptr ? 0 : uint64_t{blocks->blocks} * blocks->block_tokens;
  Json state = {{"effective_max_running_requests_per_dp", parts.limits.max_sequences},
                {"memory_usage",
                 {{"weight", gibibytes(pipeline.executor->weight_bytes())},
                  {"kvcache", gibibytes(pipeline.kv_bytes())},
                  {"token_capacity", tokens}}}};
  Json info = {{"model_path", pipeline.model->path},
               {"tokenizer_path", pipeline.model->path},
               {"served_model_name", model.name},
               {"context_length", model.host->sequence_limit_tokens()},
               {"max_running_requests", parts.limits.max_sequences},
               {"max_total_num_tokens", tokens},
               {"kv_cache_dtype", dtype_name(pipeline.kv_dtype)},
               {"device", pipeline.config.executor.value},
               {"tp_size", pipeline.config.tensor_ranks.value},
               {"pp_size", pipeline.config.pipeline_ranks.value},
               {"dp_size", model.replicas},
               {"status", "ready"},
               {"internal_states", Json::array({std::move(state)})},
               {"version", version},
               {"frontend", "tenon"},
               {"pipeline", pipeline.hash},
               {"numerics", pipeline.numerics}};
  // SGLang's words: "null" is a worker that does both parts.
  info["disaggregation_mode"] = "null";
  if (const KvTransfer* transfer = pipeline.transfer.get()) {
    const WorkerRole role = transfer->role();
    if (role != WorkerRole::both) info["disaggregation_mode"] = role_name(role);
    const auto address = parse_socket_address(transfer->address());
    if (address.ok()) info["disaggregation_bootstrap_port"] = address->port;
  }
  if (blocks != nullptr) info["page_size"] = info["block_size"] = blocks->block_tokens;
  return api::to_text(info);
}

Json load_json(const ServedModel& model) {
  const llm::HostFigures now = model.host->figures();
  const KvGroupGeometry* blocks = blocks_of(model.host->parts());
  const double tokens =
      blocks == nullptr ? 0.0 : now.kv_used * blocks->blocks * blocks->block_tokens;
  return {{"dp_rank", model.rank},
          {"num_reqs", now.running + now.waiting},
          {"num_waiting_reqs", now.waiting},
          {"num_tokens", static_cast<uint64_t>(std::llround(tokens))},
          {"model", model.name}};
}

}  // namespace tenon::server
