#include "core/server/grpc/control_call.h"

#include <vllm/control.pb.h>

#include "core/server/grpc/frames.h"

namespace tenon::server {
namespace {

// What these messages are like, as vLLM counts it: that of its 0.33.
constexpr const char* kProtoVersion = "0.6.0";

using Answered = api::Outcome<std::string>;

template <typename Response>
Answered framed(const Response& response) {
  std::string bytes;
  append_frame(bytes, {.bytes = response.SerializeAsString()});
  return bytes;
}

const KvGroupGeometry* blocks_of(const EngineParts& parts) {
  if (parts.geometry.group_count == 0) return nullptr;
  return &parts.geometry.groups[parts.shape->ledger_group];
}

Answered server_info(Service& service, const vllm::GetServerInfoRequest&, const Key*) {
  const auto model = service.only_model();
  if (!model.ok()) return model.error();
  const EngineParts& parts = (*model)->host->parts();
  vllm::ServerInfo info;
  info.set_engine_version(service.version());
  info.set_api_version("vllm");
  info.set_instance_id(service.instance());
  info.set_proto_version(kProtoVersion);
  vllm::ParallelismInfo& parallelism = *info.mutable_parallelism();
  const PipelineConfig& config = (*model)->pipeline->config;
  const uint32_t processes = config.tensor_ranks.value * config.pipeline_ranks.value;
  parallelism.set_tensor_parallel_size(config.tensor_ranks.value);
  parallelism.set_pipeline_parallel_size(config.pipeline_ranks.value);
  parallelism.set_data_parallel_size((*model)->replicas);
  parallelism.set_data_parallel_size_local((*model)->replicas);
  parallelism.set_decode_context_parallel_size(1);
  parallelism.set_world_size(processes * (*model)->replicas);
  info.set_max_model_len((*model)->host->sequence_limit_tokens());
  info.set_max_running_requests(parts.limits.max_sequences);
  info.set_max_batched_tokens(parts.limits.max_batch_tokens);
  info.set_max_loras(static_cast<uint32_t>(parts.adapters.size()));
  info.mutable_rl_capabilities();
  if (const KvGroupGeometry* blocks = blocks_of(parts)) {
    info.set_kv_block_size(blocks->block_tokens);
    info.set_total_kv_blocks(blocks->blocks);
    info.set_effective_attention_block_size(blocks->block_tokens);
  }
  return framed(info);
}

Answered model_info(Service& service, const vllm::GetModelInfoRequest&, const Key*) {
  const auto model = service.only_model();
  if (!model.ok()) return model.error();
  vllm::ModelInfo info;
  info.set_model_id((*model)->pipeline->model->path);
  info.set_served_model_name((*model)->name);
  info.set_supports_text_input((*model)->pipeline->tokenizer != nullptr);
  info.set_supports_token_ids_input(true);
  info.set_supports_lora(!(*model)->host->parts().adapters.empty());
  return framed(info);
}

Answered abort(Service& service, const vllm::AbortRequest& request, const Key* key) {
  const std::vector<std::string> names(request.request_ids().begin(), request.request_ids().end());
  service.running().abort(names, key);
  return framed(vllm::AbortResponse());
}

Answered shutdown(Service&, const vllm::ShutdownRequest&, const Key*) {
  return api::ApiError{.status = 412,
                       .message = "a signal shuts this server down (SIGTERM), and no request does"};
}

// Numbers are never given again; first come the pipeline's.
void describe(const LoadedAdapter& loaded, size_t fixed, vllm::LoraAdapter& entry) {
  entry.set_lora_id(static_cast<int64_t>(fixed + loaded.identity.number));
  entry.set_lora_name(loaded.name());
  entry.set_source_path(loaded.folder);
}

Answered list_loras(Service& service, const vllm::ListLorasRequest&, const Key*) {
  const auto model = service.only_model();
  if (!model.ok()) return model.error();
  vllm::ListLorasResponse list;
  const std::vector<NamedAdapter>& fixed = (*model)->pipeline->config.adapters;
  for (const NamedAdapter& adapter : fixed) {
    vllm::LoraAdapter& entry = *list.add_adapters();
    entry.set_lora_id(list.adapters_size());
    entry.set_lora_name(adapter.name);
    entry.set_source_path(adapter.path.value);
  }
  if ((*model)->adapters == nullptr) return framed(list);
  for (const auto& loaded : (*model)->adapters->list()) {
    describe(*loaded, fixed.size(), *list.add_adapters());
  }
  return framed(list);
}

template <typename Response>
Answered adapter_answer(Service& service, const api::Outcome<AdapterPlaces::Held>& done) {
  if (!done.ok()) {
    api::ApiError error = done.error();
    // Neither a fault of the message nor of the key.
    if (error.status == 403) error.status = 412;
    return error;
  }
  const auto model = service.only_model();
  if (!model.ok()) return model.error();
  Response response;
  describe(**done, (*model)->pipeline->config.adapters.size(), *response.mutable_adapter());
  return framed(response);
}

Answered load_lora(Service& service, const vllm::LoadLoraRequest& request, const Key*) {
  return adapter_answer<vllm::LoadLoraResponse>(
      service, service.load_adapter(
                   {.model = "", .name = request.lora_name(), .path = request.source_path()}));
}

Answered unload_lora(Service& service, const vllm::UnloadLoraRequest& request, const Key*) {
  return adapter_answer<vllm::UnloadLoraResponse>(
      service, service.unload_adapter({.model = "", .name = request.lora_name(), .path = ""}));
}

Answered kv_event_sources(Service& service, const vllm::GetKvEventSourcesRequest&, const Key*) {
  vllm::GetKvEventSourcesResponse response;
  if (const KvEventPublisher* publisher = service.kv_events()) {
    const KvEventOptions& source = publisher->options();
    vllm::KvEventSource& entry = *response.add_sources();
    entry.set_transport("zmq");
    entry.set_endpoint(source.endpoint);
    entry.set_topic(source.topic);
    entry.set_replay_endpoint(source.replay_endpoint);
    entry.set_data_parallel_rank(0);
    entry.set_encoding(encoding_name(source.form));
    entry.set_schema_version(1);
    entry.set_buffer_steps(source.buffer_steps);
    entry.set_hwm(source.high_water_mark);
    entry.set_max_queue_size(source.queue_batches);
  }
  return framed(response);
}

Answered is_paused(Service&, const vllm::IsPausedRequest&, const Key*) {
  return framed(vllm::IsPausedResponse());
}

Answered is_sleeping(Service&, const vllm::IsSleepingRequest&, const Key*) {
  return framed(vllm::IsSleepingResponse());
}

// Reads the request that `answer` takes.
template <typename Request>
Service::CallAnswer reading(Service& service,
                            Answered (*answer)(Service&, const Request&, const Key*)) {
  return [&service, answer](const std::string& body, const Key* key) -> Answered {
    Request request;
    if (request.ParseFromString(body)) return answer(service, request, key);
    return api::ApiError{.message = "the message is no " + Request::descriptor()->full_name()};
  };
}

}  // namespace

Service::CallAnswer control_answer(Service& service, std::string_view method) {
  if (method == "GetServerInfo") return reading(service, server_info);
  if (method == "GetModelInfo") return reading(service, model_info);
  if (method == "Abort") return reading(service, abort);
  if (method == "Shutdown") return reading(service, shutdown);
  if (method == "ListLoras") return reading(service, list_loras);
  if (method == "LoadLora") return reading(service, load_lora);
  if (method == "UnloadLora") return reading(service, unload_lora);
  if (method == "GetKvEventSources") return reading(service, kv_event_sources);
  if (method == "IsPaused") return reading(service, is_paused);
  if (method == "IsSleeping") return reading(service, is_sleeping);
  return {};
}

}  // namespace tenon::server
