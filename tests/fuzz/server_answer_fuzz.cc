// Any bytes as a server's response to a question of ours. The first byte says what was asked, and
// how the bytes are cut.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/client/answer_reader.h"
#include "tests/fuzz/target.h"

namespace {

using namespace tenon;

class Hand final : public http::ResponseSink {
 public:
  explicit Hand(client::AnswerReader& reader) : reader_(reader) {}
  void head(unsigned status, const std::vector<http::Field>& fields) override {
    reader_.head(status, fields, 1);
  }
  void body(std::string_view piece) override {
    if (wants_more) wants_more = reader_.body(piece, 2);
  }

  bool wants_more = true;

 private:
  client::AnswerReader& reader_;
};

}  // namespace

TENON_FUZZ_TARGET(server_answer, const uint8_t* data, size_t size) {
  if (size < 2 || size > 65536) return 0;
  client::AnswerReader answers((data[0] & 1) != 0, 1 + (data[0] >> 1 & 3));
  Hand hand(answers);
  http::ResponseReader response({.header_bytes = 4096, .body_bytes = 32768}, hand);
  const size_t piece = 1 + (data[0] >> 3) * size_t{7};
  for (size_t at = 1; at < size && hand.wants_more; at += piece) {
    const std::string_view bytes(reinterpret_cast<const char*>(data) + at,
                                 std::min(piece, size - at));
    if (!response.put(bytes)) break;
  }
  response.end_of_stream();
  http::Ending ending;
  if (!response.is_complete()) ending = {http::Fault::closed, response.fault()};
  const client::Answer answer = answers.end(ending, 3);
  if (!answer.ok() && answer.message.empty()) std::abort();
  return 0;
}
