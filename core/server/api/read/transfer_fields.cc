#include "core/server/api/read/transfer_fields.h"

#include <algorithm>
#include <charconv>

#include "core/base/digest/hex.h"
#include "core/base/quote.h"

namespace tenon::api {
namespace {

constexpr std::string_view kParams = "kv_transfer_params";
constexpr int64_t kMostPort = 65535;
constexpr size_t kMostName = 64;
// What else routers write that know vLLM's workers: it says nothing that is not known here.
constexpr std::string_view kUnneeded[] = {"remote_engine_id", "remote_block_ids", "tp_size",
                                          "remote_num_tokens", "remote_dp_rank"};

bool asks(const Json& value) {
  return !value.is_null() && value != Json(false) && value != Json("") && value != Json::array();
}

// It goes into a response's head.
bool is_plain(const std::string& name) {
  return name.size() <= kMostName && std::ranges::all_of(name, [](char c) {
           return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z');
         });
}

// Of the member of an object, absent ones being null.
const Json& member(const Json& object, std::string_view name) {
  static const Json kNone;
  const auto found = object.find(name);
  return found == object.end() ? kNone : *found;
}

// A number, or its digits as a text, which Dynamo's sidecar makes of it.
std::optional<uint16_t> port_of(const Json& value) {
  uint16_t port = 0;
  if (value.is_string()) {
    const auto& digits = value.get_ref<const std::string&>();
    const char* const end = digits.data() + digits.size();
    const auto read = std::from_chars(digits.data(), end, port);
    return read.ec == std::errc() && read.ptr == end ? std::optional(port) : std::nullopt;
  }
  if (!value.is_number_integer() || value < 0 || value > kMostPort) return std::nullopt;
  return value.get<uint16_t>();
}

bool flag_of(const Json& transfer, std::string_view name, Fields& fields) {
  const Json& value = member(transfer, name);
  if (!value.is_null() && !value.is_boolean()) {
    fields.refuse(kParams, "has " + shown_text(name) + ", which must be true or false");
  }
  return value == Json(true);
}

// Where the prefill worker said that its K/V is.
void read_place(const Json& transfer, Fields& fields, TransferCall& out) {
  const Json& host = member(transfer, "remote_host");
  const auto port = port_of(member(transfer, "remote_port"));
  const Json& name = member(transfer, "remote_request_id");
  if (!host.is_string() || host.get_ref<const std::string&>().empty()) {
    return fields.refuse(kParams, "asks for \"do_remote_prefill\" without a \"remote_host\"");
  }
  TransferCall::Place place;
  place.host = host.get<std::string>();
  if (!port) {
    return fields.refuse(kParams, "has no \"remote_port\" – it must be a number up to 65535");
  }
  place.port = *port;
  const auto id =
      name.is_string() ? parse_transfer_name(name.get_ref<const std::string&>()) : std::nullopt;
  if (!id) {
    return fields.refuse(kParams,
                         "has a \"remote_request_id\" that no Tenon gave – send what the prefill "
                         "worker answered, unchanged");
  }
  place.id = *id;
  out.places.push_back(std::move(place));
}

void read_params(Fields& fields, GenerationCall& call) {
  const Json* transfer = fields.take(kParams);
  if (transfer == nullptr) return;
  if (!transfer->is_object()) return fields.refuse(kParams, "must be an object");
  if (std::ranges::none_of(*transfer, asks)) return;
  TransferCall out;
  const bool hands_over = flag_of(*transfer, "do_remote_decode", fields);
  const bool fetches = flag_of(*transfer, "do_remote_prefill", fields);
  if (hands_over && fetches) {
    return fields.refuse(kParams, "asks for both \"do_remote_prefill\" and \"do_remote_decode\"");
  }
  if (call.dialect != Dialect::completions && call.dialect != Dialect::chat &&
      (hands_over || fetches)) {
    return fields.refuse(kParams,
                         "asks for K/V to go between workers, which /v1/completions and "
                         "/v1/chat/completions do");
  }
  if (fetches) read_place(*transfer, fields, out);
  for (const auto& [name, value] : transfer->items()) {
    const bool is_read = name.starts_with("do_remote_") || name == "remote_host" ||
                         name == "remote_port" || name == "remote_request_id";
    if (is_read || !asks(value) || std::ranges::find(kUnneeded, name) != std::end(kUnneeded)) {
      continue;
    }
    fields.note_ignored(std::string(kParams) + (is_plain(name) ? "." + name : ""));
  }
  if (!hands_over && !fetches) return;
  out.kind = fetches ? TransferCall::Kind::fetch : TransferCall::Kind::hand_over;
  call.transfer = std::move(out);
}

// One for each prompt: a value, or a list of them.
const Json& nth(const Json& value, size_t index) {
  static const Json kNone;
  if (!value.is_array()) return value;
  return index < value.size() ? value[index] : kNone;
}

// SGLang's router sends the same body to both workers at once.
void read_bootstrap(Fields& fields, GenerationCall& call) {
  if (call.dialect != Dialect::completions && call.dialect != Dialect::chat) return;
  const Json* host = fields.take("bootstrap_host");
  const Json* port = fields.take("bootstrap_port");
  const Json* room = fields.take("bootstrap_room");
  if (room == nullptr) return;
  const size_t count = room->is_array() ? room->size() : 1;
  const size_t prompts =
      call.dialect == Dialect::chat ? 1 : std::max<size_t>(call.prompts.size(), 1);
  // sglang-router sends a room for each sample of a prompt, of which one will do.
  const size_t samples = count == prompts ? 1 : call.answer.samples.value_or(1);
  if (count != prompts * samples) {
    return fields.refuse("bootstrap_room", "must be one number for each prompt");
  }
  TransferCall out;
  out.kind = TransferCall::Kind::room;
  for (size_t i = 0; i < count; i += samples) {
    TransferCall::Place place;
    const Json& number = nth(*room, i);
    if (!number.is_number_unsigned()) {
      return fields.refuse("bootstrap_room", "must be a whole number, 0 or more");
    }
    place.id = number.get<uint64_t>();
    const Json name = host == nullptr ? Json() : nth(*host, i);
    if (!name.is_null() && !name.is_string()) {
      return fields.refuse("bootstrap_host", "must be a text");
    }
    if (name.is_string()) place.host = name.get<std::string>();
    const Json at = port == nullptr ? Json() : nth(*port, i);
    const auto own_port = port_of(at);
    if (!at.is_null() && !own_port) {
      return fields.refuse("bootstrap_port", "must be a number up to 65535");
    }
    if (own_port) place.port = *own_port;
    out.places.push_back(std::move(place));
  }
  if (call.transfer) {
    return fields.refuse("bootstrap_room", "and \"kv_transfer_params\" say the same – keep one");
  }
  call.transfer = std::move(out);
}

}  // namespace

void read_transfer(Fields& fields, GenerationCall& call) {
  read_params(fields, call);
  read_bootstrap(fields, call);
}

std::string transfer_name(uint64_t id) {
  uint8_t bytes[sizeof(id)];
  for (size_t i = 0; i < sizeof(id); ++i) bytes[i] = static_cast<uint8_t>(id >> (56 - 8 * i));
  return hex_text(bytes);
}

std::optional<uint64_t> parse_transfer_name(std::string_view name) {
  if (name.size() != 2 * sizeof(uint64_t)) return std::nullopt;
  uint64_t id = 0;
  for (const char c : name) {
    const int digit = hex_digit(c);
    if (digit < 0) return std::nullopt;
    id = id << 4 | static_cast<uint64_t>(digit);
  }
  return id;
}

}  // namespace tenon::api
