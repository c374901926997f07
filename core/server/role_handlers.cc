// Which part of requests a model's worker does, where prefill and decode are apart: asked for, and
// changed while it runs.
#include "core/base/quote.h"
#include "core/server/api/read/fields.h"
#include "core/server/service.h"
#include "core/transfer/transfer.h"

namespace tenon::server {
namespace {

api::Json role_json(const ServedModel& model) {
  const KvTransfer* const transfer = model.pipeline->transfer.get();
  if (transfer == nullptr) return {{"model", model.name}, {"role", nullptr}};
  return {{"model", model.name},
          {"role", role_name(transfer->role())},
          {"address", transfer->address()},
          {"engine_id", transfer->engine_id()}};
}

}  // namespace

void Service::role(const Call& call, const http::Request& request) {
  auto found = model_in_query(request);
  if (!found.ok()) return call->refuse(found.error());
  call->answer_json(api::to_text(role_json(**found)));
}

// What runs goes on as it began; what comes from now on finds the new role.
void Service::set_role(const Call& call, const http::Request& request) {
  const auto body = api::parse_body(request.body);
  if (!body.ok()) return call->refuse(body.error());
  api::Fields fields(*body);
  const std::string name = fields.text("model");
  const std::string wanted = fields.text("role");
  fields.settle();
  const auto role = parse_role(wanted);
  if (fields.ok() && !role) {
    fields.refuse("role",
                  "is " + in_quotes(wanted) + " – it must be \"prefill\", \"decode\" or \"both\"");
  }
  if (!fields.ok()) return call->refuse(*fields.fault());
  auto found = loaded_model(name);
  if (!found.ok()) return call->refuse(found.error());
  const ServedModel& model = **found;
  if (model.pipeline->transfer == nullptr) {
    return call->refuse({.message = "the model " + in_quotes(model.name) +
                                    " does both parts by itself – start it with "
                                    "disaggregation.role to change that",
                         .param = "role"});
  }
  model.pipeline->transfer->set_role(*role);
  call->answer_json(api::to_text(role_json(model)));
}

}  // namespace tenon::server
