#include "core/compare/arms/orders.h"

#include <algorithm>

namespace tenon::compare {
namespace {

constexpr size_t kRowsOfLine = 1000;

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

void answer_order(OrderedArm& arm, const std::string& line,
                  const std::function<void(const std::string&)>& send) {
  try {
    const Result<Json> answer = arm.answer(Json::parse(line));
    if (!answer.ok()) return send(error_line(answer.status()));
    const std::vector<RequestRow> rows = arm.take_rows();
    for (size_t first = 0; first < rows.size(); first += kRowsOfLine) {
      Json some = Json::array();
      const size_t end = std::min(first + kRowsOfLine, rows.size());
      for (size_t i = first; i < end; ++i) some.push_back(row_json(rows[i]));
      send(line_of({{"rows", std::move(some)}, {"of", rows.size()}}));
    }
    send(line_of(*answer));
  } catch (const nlohmann::json::exception& error) {
    send(error_line(invalid_argument(error.what())));
  }
}

Json run_answer(MeasuredPiece piece, std::vector<RequestRow>* rows) {
  Json out = piece_json(piece);
  out["requests"] = Json::array();
  if (rows != nullptr) {
    *rows = std::move(piece.requests);
    return out;
  }
  for (const RequestRow& row : piece.requests) out["requests"].push_back(row_json(row));
  return out;
}

}  // namespace tenon::compare
