// How the process that measures and the process of an arm speak: a line of JSON asks, a line of
// JSON answers. The arm says {"ready": true} first.
//
//   {"do": "describe"}                                   {"numerics": …, "resolved": …, …}
//   {"do": "load", "workload": PATH, "max_tokens": n,
//    "in_flight": n, "vocabulary": n, "arrivals_ns": […]} {"requests": n, "arrivals_ns": […]}
//   {"do": "run", "digests": true, "salt": n, "warm": b,
//    "keep": b, "count_waits": b, "record": PATH,
//    "arrivals_ns": […], "turn_steps": n,
//    "row_lines": b}                                     a piece, with its "requests"
//   {"do": "go_on"}                                     the same, see below
//   {"do": "predict", "text": PATH, "tokens": n,
//    "window": n, "out": PATH}                           {"ids": …}: the base's predictions
//   {"do": "judge", …, "ids": …, "against": PATH}        a Fidelity
//
// With "row_lines" an arm may say its requests in lines of their own before the piece, whose
// "requests" are empty then, so that no line has very many: {"rows": […], "of": n}, where n is how
// many there are in all.
//
// What fails is answered by {"error": …}. A run with "turn_steps" is answered by {"waits": true}
// after so many steps of the engine, and goes on, to its next such answer or its end, once it is
// told to.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/compare/json.h"

namespace tenon::compare {

// The end of the process that measures.
class LineChannel {
 public:
  virtual ~LineChannel() = default;
  // Error: the other end reads no more.
  virtual Status write_line(std::string_view line) = 0;
  // The next line without its end; null once `go_on` says no, which is asked several times a
  // second. Error: the other end has ended, and how.
  virtual Result<std::optional<std::string>> read_line(const std::function<bool()>& go_on) = 0;
};

// The arm's own end. Exceptions of nlohmann's, for members that an order lacks, are its caller's to
// catch: answer_order() does.
class OrderedArm {
 public:
  virtual ~OrderedArm() = default;
  virtual Result<Json> answer(const Json& order) = 0;
  // Of the latest "run" with "row_lines"; once.
  virtual std::vector<RequestRow> take_rows() { return {}; }
};

// Each is a line with its end.
std::string ready_line();
std::string error_line(const Status& status);
std::string waits_line();
// Whether this is the order that ends the wait.
bool is_go_on(const std::string& line);
// Sends what `arm` answers to a line, or why it cannot, line by line.
void answer_order(OrderedArm& arm, const std::string& line,
                  const std::function<void(const std::string&)>& send);

// A piece with its requests, as "run" answers; where `rows` is not null it gets them.
Json run_answer(MeasuredPiece piece, std::vector<RequestRow>* rows = nullptr);

}  // namespace tenon::compare
