#include "core/server/api/write/answer_parts.h"

namespace tenon::api {
namespace {

class PlainReader final : public AnswerReader {
 public:
  void push(std::string_view text, std::span<const TokenId>,
            std::vector<AnswerPart>& out) override {
    if (!text.empty()) out.push_back({AnswerPart::Kind::content, std::string(text)});
  }
  void finish(std::vector<AnswerPart>&) override {}
};

}  // namespace

std::unique_ptr<AnswerReader> plain_reader() {
  return std::make_unique<PlainReader>();
}

}  // namespace tenon::api
