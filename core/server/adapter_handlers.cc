// Adapters that are loaded and unloaded by request, by vLLM's paths.
#include <algorithm>

#include "core/base/quote.h"
#include "core/server/service.h"

namespace tenon::server {
namespace {

http::Response told(const std::string& name, const std::string& done) {
  return {.status = 200,
          .fields = {{"Content-Type", "text/plain; charset=utf-8"}},
          .body = "Success: LoRA adapter '" + name + "' " + done + " successfully."};
}

}  // namespace

api::Outcome<Service::Lease> Service::model_for_adapters(const std::string& name) {
  const auto found = model_of(name);
  if (!found.ok()) return found.error();
  auto model = loaded_model(models_.name(**found));
  if (!model.ok() || (*model)->adapters != nullptr) return model;
  return api::ApiError{.status = 403,
                       .message =
                           "this server takes no adapters from requests – start it with "
                           "--adapters FOLDER, and they may name those below it"};
}

api::Outcome<AdapterPlaces::Held> Service::load_adapter(const api::AdapterCall& call) {
  const auto model = model_for_adapters(call.model);
  if (!model.ok()) return model.error();
  // Requests find models by their names first.
  for (size_t i = 0; i < models_.size(); ++i) {
    const Entry& entry = models_.at(i);
    const std::vector<std::string> adapters = models_.adapters(entry);
    const bool is_other = models_.name(entry) != (*model)->name;
    const bool has_it = std::ranges::find(adapters, call.name) != adapters.end();
    if (models_.name(entry) != call.name && !(is_other && has_it)) continue;
    return api::ApiError{.status = 409,
                         .message = in_quotes(call.name) +
                                    " is served here already – call the "
                                    "adapter otherwise",
                         .param = "lora_name"};
  }
  return (*model)->adapters->load(**model, call.name, call.path, call.replace);
}

api::Outcome<AdapterPlaces::Held> Service::unload_adapter(const api::AdapterCall& call) {
  const Entry* owner = call.model.empty() ? adapted_by(call.name) : nullptr;
  const auto model = model_for_adapters(owner == nullptr ? call.model : models_.name(*owner));
  if (!model.ok()) return model.error();
  return (*model)->adapters->unload(call.name);
}

void Service::load_adapter(const Call& call, const http::Request& request) {
  const auto body = api::parse_body(request.body);
  if (!body.ok()) return call->refuse(body.error());
  const auto asked = api::read_adapter_call(*body, true);
  if (!asked.ok()) return call->refuse(asked.error());
  const auto loaded = load_adapter(*asked);
  if (!loaded.ok()) return call->refuse(loaded.error());
  call->name_ignored(asked->ignored);
  call->answer(told((*loaded)->name(), "added"));
}

void Service::unload_adapter(const Call& call, const http::Request& request) {
  const auto body = api::parse_body(request.body);
  if (!body.ok()) return call->refuse(body.error());
  const auto asked = api::read_adapter_call(*body, false);
  if (!asked.ok()) return call->refuse(asked.error());
  const auto unloaded = unload_adapter(*asked);
  if (!unloaded.ok()) return call->refuse(unloaded.error());
  call->name_ignored(asked->ignored);
  call->answer(told((*unloaded)->name(), "removed"));
}

}  // namespace tenon::server
