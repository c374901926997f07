#include "core/compare/orders.h"

namespace tenon::compare {
namespace {

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string ready_line() {
  return line_of({{"ready", true}});
}

std::string error_line(const Status& status) {
  return line_of({{"error", message_of(status)}});
}

std::string waits_line() {
  return line_of({{"waits", true}});
}

bool is_go_on(const std::string& line) {
  const Json order = Json::parse(line, nullptr, false);
  return order.is_object() && order.value("do", "") == "go_on";
}

std::string answer_line(OrderedArm& arm, const std::string& line) {
  try {
    const Result<Json> answer = arm.answer(Json::parse(line));
    return answer.ok() ? line_of(*answer) : error_line(answer.status());
  } catch (const nlohmann::json::exception& error) {
    return error_line(invalid_argument(error.what()));
  }
}

Json run_answer(const MeasuredPiece& piece) {
  Json out = piece_json(piece);
  out["requests"] = Json::array();
  for (const RequestRow& row : piece.requests) out["requests"].push_back(row_json(row));
  return out;
}

}  // namespace tenon::compare
