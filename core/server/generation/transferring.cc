#include "core/server/generation/transferring.h"

#include <algorithm>
#include <numeric>

#include "core/base/quote.h"
#include "core/server/api/read/transfer_fields.h"
#include "core/transfer/transfer.h"

namespace tenon::server {
namespace {

using api::TransferCall;

const char* field_of(const TransferCall& transfer) {
  return transfer.kind == TransferCall::Kind::room ? "bootstrap_room" : "kv_transfer_params";
}

api::ApiError refusal(const TransferCall& transfer, const std::string& why) {
  const std::string field = field_of(transfer);
  return {.message = "\"" + field + "\" " + why, .param = field};
}

// A prompt's whole blocks by number: whoever fetches them asks by their content.
api::Json numbers_of_blocks(size_t prompt_tokens, uint32_t block_tokens) {
  std::vector<uint64_t> numbers(prompt_tokens / block_tokens);
  std::iota(numbers.begin(), numbers.end(), uint64_t{0});
  return numbers;
}

// As vLLM's prefill workers answer, and decode workers take it.
api::Json hand_over(KvTransfer& transfer, Request& request) {
  const TransferId id = transfer.fresh_id();
  request.kv_export = transfer.export_as(id);
  std::string host = transfer.address();
  uint16_t port = 0;
  const auto address = parse_socket_address(host);
  if (address.ok() && !address->host.empty()) {
    host = address->host;
    port = address->port;
  }
  return {
      {"do_remote_prefill", true},
      {"do_remote_decode", false},
      {"remote_engine_id", transfer.engine_id()},
      {"remote_block_ids", numbers_of_blocks(request.prompt.size(), transfer.world().block_tokens)},
      {"remote_host", host},
      {"remote_port", port},
      {"remote_request_id", api::transfer_name(id)},
      {"tp_size", 1}};
}

std::optional<api::ApiError> fetch(KvTransfer& transfer, const TransferCall& call,
                                   const TransferCall::Place& place, Request& request) {
  const bool is_path = place.host.starts_with("unix:") || place.host.starts_with("memory:");
  const std::string host = is_path ? "localhost" : place.host;
  if (host.empty() || (place.port == 0 && !is_path)) {
    return refusal(call,
                   "comes without the port of the prefill worker's disaggregation.address – tell "
                   "the router (--prefill URL PORT)");
  }
  if (!transfer.trusts(host)) {
    return refusal(call, "names the host " + in_quotes(host) +
                             ", which is no peer of this server – add it to disaggregation.peers");
  }
  SocketAddress named;
  named.host = place.host;
  named.port = place.port;
  const auto address = parse_socket_address(is_path ? place.host : named.shown());
  if (!address.ok()) return refusal(call, "is of no use: " + message_of(address.status()));
  request.kv_import =
      transfer.import_from({address->shown(), place.id, call.kind == TransferCall::Kind::room});
  return std::nullopt;
}

}  // namespace

std::string unused_transfer(const api::GenerationCall& call, const ServedModel& model) {
  const KvTransfer* const transfer = model.pipeline->transfer.get();
  if (!call.transfer || transfer == nullptr) return {};
  using Kind = TransferCall::Kind;
  const Kind kind = call.transfer->kind;
  const bool is_other = (kind == Kind::hand_over && !transfer->exports()) ||
                        (kind == Kind::fetch && !transfer->imports());
  const bool has_several = kind != Kind::room && call.prompts.size() > 1;
  return is_other || has_several ? field_of(*call.transfer) : "";
}

api::Outcome<bool> attach_transfer(const api::GenerationCall& call, const ServedModel& model,
                                   std::vector<Request>& requests, api::Json& answer) {
  if (!call.transfer || !unused_transfer(call, model).empty()) return true;
  const TransferCall& asked = *call.transfer;
  KvTransfer* const transfer = model.pipeline->transfer.get();
  if (transfer == nullptr) {
    return refusal(
        asked,
        "asks for K/V to go between workers, and this server is not set up for that – "
        "set disaggregation.role, or send the whole prompt, and this server computes it");
  }
  if (asked.kind == TransferCall::Kind::hand_over) {
    answer = hand_over(*transfer, requests.front());
    return true;
  }
  const WorkerRole role = transfer->role();
  if (asked.kind == TransferCall::Kind::room && role == WorkerRole::both) {
    return refusal(asked,
                   "does not say whether this server is to prefill or to decode, and its role is "
                   "\"both\" – set disaggregation.role to one of them");
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    const TransferCall::Place& place = asked.places[std::min(i, asked.places.size() - 1)];
    if (asked.kind == TransferCall::Kind::room && role == WorkerRole::prefill) {
      requests[i].kv_export = transfer->export_as(place.id);
      // Both workers get the same request; what this one would say beyond that nobody reads.
      requests[i].max_tokens = 1;
      requests[i].min_tokens = std::min(requests[i].min_tokens, 1u);
      continue;
    }
    if (auto error = fetch(*transfer, asked, place, requests[i])) return *error;
  }
  return true;
}

}  // namespace tenon::server
