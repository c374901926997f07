#include "core/client/session.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/clock.h"
#include "core/base/json/nesting.h"
#include "core/base/quote.h"
#include "core/client/answer_reader.h"
#include "core/http/client.h"

namespace tenon::client {
namespace {

constexpr std::string_view kVersionPath = "/v1";
constexpr size_t kMostListBytes = size_t{4} << 20;
constexpr size_t kMostModels = 4096;

// It goes into the head of every request.
Status check_key(const std::string& key) {
  const bool is_plain =
      std::all_of(key.begin(), key.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (is_plain) return {};
  return invalid_argument(
      "the key has white space, control characters or others beyond ASCII – keys have none – look "
      "for a line end behind it");
}

// Gathers one answer.
class Asked final : public http::ResponseHandler {
 public:
  Asked(const Question& question, int64_t sent_ns, std::function<void(Answer)> done)
      : reader_(question.chat, question.answer.samples.value_or(1)),
        sent_ns_(sent_ns),
        done_(std::move(done)) {}

  void head(unsigned status, const std::vector<http::Field>& fields, int64_t now_ns) override {
    reader_.head(status, fields, now_ns);
  }
  bool body(std::string_view piece, int64_t now_ns) override { return reader_.body(piece, now_ns); }
  void end(const http::Ending& ending, int64_t now_ns) override {
    Answer answer = reader_.end(ending, now_ns);
    answer.sent_ns = sent_ns_;
    done_(std::move(answer));
  }

 private:
  AnswerReader reader_;
  const int64_t sent_ns_;
  const std::function<void(Answer)> done_;
};

// Gathers a body as a whole.
class Fetched final : public http::ResponseHandler {
 public:
  void head(unsigned got, const std::vector<http::Field>&, int64_t) override { status = got; }
  bool body(std::string_view piece, int64_t) override {
    text.append(piece);
    return text.size() <= kMostListBytes;
  }
  void end(const http::Ending& with, int64_t) override { ending = with; }

  unsigned status = 0;
  std::string text;
  http::Ending ending;
};

Result<std::vector<std::string>> names_in(const std::string& text) {
  const Status fault =
      failed("the server's list of models is none: " + in_quotes(text, kMostValueBytes) +
             R"( – expected {"data": [{"id": …}]} – say --model)");
  if (is_nested_deeper(text, 64)) return copy(fault);
  const nlohmann::json list = nlohmann::json::parse(text, nullptr, false);
  const auto data = list.is_object() ? list.find("data") : list.end();
  if (data == list.end() || !data->is_array() || data->size() > kMostModels) return copy(fault);
  std::vector<std::string> names;
  for (const nlohmann::json& model : *data) {
    const auto id = model.is_object() ? model.find("id") : model.end();
    if (id == model.end() || !id->is_string()) return copy(fault);
    names.push_back(id->get<std::string>());
  }
  return names;
}

}  // namespace

class Session::State {
 public:
  State(std::unique_ptr<http::Client> client, const http::Address& address, const std::string& key)
      : client_(std::move(client)), shown_(address.shown()) {
    if (!key.empty()) fields_.push_back({"Authorization", "Bearer " + key});
    fields_.push_back({"Accept-Encoding", "identity"});
    fields_.push_back({"User-Agent", "tenon"});
  }

  Result<std::vector<std::string>> models() {
    const auto fetched = std::make_shared<Fetched>();
    client_->send({.path = "/v1/models", .fields = fields_}, fetched);
    client_->run();
    if (fetched->ending.fault != http::Fault::none) return failed(fetched->ending.message);
    if (fetched->status != 200) {
      return failed("the server refused its list of models with HTTP " +
                    std::to_string(fetched->status) + ": " + error_message(fetched->text));
    }
    return names_in(fetched->text);
  }

  void ask(const Question& question, std::function<void(Answer)> done) {
    const int64_t sent_ns = WallClock().now_ns();
    Result<std::string> body = body_of(question);
    if (!body.ok()) {
      Answer answer;
      answer.trouble = Trouble::protocol;
      answer.message = message_of(body.status());
      answer.sent_ns = answer.end_ns = sent_ns;
      client_->at(sent_ns, [done = std::move(done), answer] { done(answer); });
      return;
    }
    http::Outgoing request{
        .method = "POST", .path = path_of(question), .fields = fields_, .body = *std::move(body)};
    request.fields.push_back({"Content-Type", "application/json"});
    request.fields.push_back(
        {"Accept", question.stream ? "text/event-stream" : "application/json"});
    client_->send(std::move(request), std::make_shared<Asked>(question, sent_ns, std::move(done)));
  }

  http::Client& client() { return *client_; }
  const std::string& shown() const { return shown_; }

 private:
  const std::unique_ptr<http::Client> client_;
  const std::string shown_;
  std::vector<http::Field> fields_;
};

Session::Session(std::unique_ptr<State> state) : state_(std::move(state)) {}
Session::~Session() = default;

Result<std::unique_ptr<Session>> Session::open(const ServerSettings& settings) {
  TENON_RETURN_IF_ERROR(check_key(settings.key));
  TENON_ASSIGN_OR_RETURN(http::Address address, http::parse_address(settings.url));
  // People copy what OpenAI's clients call the base.
  if (address.base.ends_with(kVersionPath)) {
    address.base.resize(address.base.size() - kVersionPath.size());
  }
  const http::ClientOptions options{.connect_timeout = settings.connect_timeout,
                                    .silence_timeout = settings.silence_timeout,
                                    .total_timeout = settings.total_timeout,
                                    .authorities = settings.authorities};
  TENON_ASSIGN_OR_RETURN(std::unique_ptr<http::Client> client,
                         http::Client::open(address, options));
  return std::unique_ptr<Session>(
      new Session(std::make_unique<State>(std::move(client), address, settings.key)));
}

Result<std::vector<std::string>> Session::models() {
  return state_->models();
}
void Session::ask(const Question& question, std::function<void(Answer)> done) {
  state_->ask(question, std::move(done));
}
void Session::at(int64_t time_ns, std::function<void()> call) {
  state_->client().at(time_ns, std::move(call));
}
void Session::run() {
  state_->client().run();
}
void Session::stop() {
  state_->client().stop();
}
const std::string& Session::address() const {
  return state_->shown();
}

}  // namespace tenon::client
