// Questions to a server that does what each test says.
#include "core/client/session.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "core/base/clock.h"
#include "core/client/load.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/client/scripted_server.h"

namespace tenon::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kWhole =
    R"({"choices": [{"index": 0, "text": "a b", "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2}})";

std::string piece(const std::string& text, const std::string& finish = "null") {
  return R"({"choices": [{"index": 0, "text": ")" + text + R"(", "finish_reason": )" + finish +
         "}]}";
}

std::unique_ptr<Session> session_of(const std::string& url, int silence_ms = 20'000) {
  auto session =
      Session::open({.url = url, .silence_timeout = std::chrono::milliseconds(silence_ms)});
  EXPECT_TRUE(session.ok()) << session.status().message();
  return *std::move(session);
}

Answer ask(Session& session, const Question& question) {
  Answer out;
  int calls = 0;
  session.ask(question, [&](Answer answer) {
    out = std::move(answer);
    ++calls;
  });
  session.run();
  EXPECT_EQ(calls, 1);
  return out;
}
Answer ask(const std::string& url, const Question& question = {.model = "m", .text = "hello"},
           int silence_ms = 20'000) {
  return ask(*session_of(url, silence_ms), question);
}
// What comes of one question to a server that follows this script.
Answer ask_script(const Script& script, const Question& question = {.model = "m", .text = "hello"},
                  int silence_ms = 20'000) {
  const ScriptedServer server({script});
  return ask(server.url(), question, silence_ms);
}
// What comes of a stream of these events, and nothing after them.
Answer ask_events(const std::vector<std::string>& events, bool chat = false) {
  return ask_script(
      [&](Wire& wire) {
        wire.request();
        wire.begin_events();
        for (const std::string& event : events) wire.event(event);
        wire.end_chunks();
      },
      {.model = "m", .chat = chat, .text = "hello"});
}

TEST(Session, tells_what_a_stream_brought) {
  const Answer answer = ask_events({piece("one"), piece(" two"), piece("", "\"length\""),
                                    R"({"choices": [], "usage": {"prompt_tokens": 7,
                                        "completion_tokens": 5,
                                        "prompt_tokens_details": {"cached_tokens": 4}}})",
                                    "[DONE]"});
  EXPECT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.status, 200u);
  ASSERT_EQ(answer.samples.size(), 1u);
  EXPECT_EQ(answer.samples[0].text, "one two");
  EXPECT_EQ(answer.samples[0].finish, "length");
  EXPECT_EQ(answer.samples[0].token_ns.size(), 2u);
  EXPECT_EQ(answer.tokens, 5u);
  EXPECT_EQ(answer.counted_by, CountedBy::usage);
  EXPECT_EQ(answer.prompt_tokens, 7u);
  EXPECT_EQ(answer.cached_tokens, 4u);
}

TEST(Session, knows_when_each_token_came) {
  const Answer answer = ask_events({piece("a"), piece("b"), piece("c", "\"stop\""), "[DONE]"});
  ASSERT_EQ(answer.samples[0].token_ns.size(), 3u);
  std::vector<int64_t> times = {answer.sent_ns, answer.head_ns};
  times.insert(times.end(), answer.samples[0].token_ns.begin(), answer.samples[0].token_ns.end());
  times.push_back(answer.end_ns);
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  EXPECT_EQ(answer.first_ns, answer.samples[0].token_ns[0]);
}

TEST(Session, counts_ids_before_log_probabilities_before_pieces) {
  const Answer ids = ask_events({R"({"choices": [{"index": 0, "text": "x", "token_ids": [4, 5, 6],
           "logprobs": {"tokens": ["x"]}}]})",
                                 "[DONE]"});
  EXPECT_EQ(ids.tokens, 3u);
  EXPECT_EQ(ids.counted_by, CountedBy::token_ids);
  EXPECT_THAT(ids.samples[0].tokens, ElementsAre(4, 5, 6));
  const Answer scored =
      ask_events({R"({"choices": [{"index": 0, "text": "x", "logprobs": {"tokens": ["x", "y"]}}]})",
                  "[DONE]"});
  EXPECT_EQ(scored.tokens, 2u);
  EXPECT_EQ(scored.counted_by, CountedBy::logprobs);
  const Answer pieces = ask_events({piece("x"), piece(""), "[DONE]"});
  EXPECT_EQ(pieces.tokens, 1u);
  EXPECT_EQ(pieces.counted_by, CountedBy::events);
}

TEST(Session, gathers_all_parts_of_a_message) {
  const Answer answer = ask_events(
      {R"({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})",
       R"({"choices": [{"index": 0, "delta": {"reasoning_content": "so "}}]})",
       R"({"choices": [{"index": 0, "delta": {"content": "it is"}, "finish_reason": "stop"}]})",
       "[DONE]"},
      true);
  EXPECT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.samples[0].text, "so it is");
  EXPECT_EQ(answer.samples[0].token_ns.size(), 2u);
}

TEST(Session, counts_reasoning_that_has_both_of_its_names_once) {
  for (const char* delta : {R"("reasoning": "so ")", R"("reasoning_content": "so ")",
                            R"("reasoning": "so ", "reasoning_content": "so ")"}) {
    const Answer answer =
        ask_events({R"({"choices": [{"index": 0, "delta": {)" + std::string(delta) +
                        R"(, "content": "it is"}, "finish_reason": "stop"}]})",
                    "[DONE]"},
                   true);
    EXPECT_EQ(answer.samples[0].text, "so it is") << delta;
  }
}

TEST(Session, takes_an_answer_in_one_piece) {
  const Answer answer = ask_script(
      [](Wire& wire) {
        EXPECT_THAT(wire.request(), ::testing::Not(HasSubstr("stream")));
        wire.answer(kWhole);
      },
      {.model = "m", .text = "hello", .stream = false});
  EXPECT_TRUE(answer.ok()) << answer.message;
  EXPECT_FALSE(answer.streamed);
  EXPECT_EQ(answer.first_ns, -1);
  EXPECT_EQ(answer.tokens, 2u);
}

TEST(Session, does_not_care_where_bytes_are_cut) {
  const Answer answer = ask_script([](Wire& wire) {
    wire.request();
    wire.send_slowly(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
        "Transfer-Encoding: chunked\r\n\r\n");
    const std::string text = ": hello\r\ndata: " + piece("größe") + "\r\n\r\ndata: [DONE]\r\n\r\n";
    for (const char c : text) wire.send_slowly("1\r\n" + std::string(1, c) + "\r\n");
    wire.send_slowly("0\r\n\r\n");
  });
  EXPECT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.samples[0].text, "größe");
}

TEST(Session, uses_a_connection_again) {
  const ScriptedServer server({[](Wire& wire) {
    for (int i = 0; i < 3; ++i) {
      wire.request();
      wire.answer(kWhole);
    }
  }});
  const auto session = session_of(server.url());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(ask(*session, {.model = "m"}).ok());
}

TEST(Session, replaces_a_kept_connection_that_the_server_closed) {
  const Script one = [](Wire& wire) {
    wire.request();
    wire.answer(kWhole);
  };
  const ScriptedServer server({one, one});
  const auto session = session_of(server.url());
  EXPECT_TRUE(ask(*session, {.model = "m"}).ok());
  const Answer again = ask(*session, {.model = "m"});
  EXPECT_TRUE(again.ok()) << again.message;
}

TEST(Session, talks_through_a_unix_socket) {
  const TemporaryFolder folder;
  const ScriptedServer server({[](Wire& wire) {
                                wire.request();
                                wire.answer(kWhole);
                              }},
                              folder.path("socket"));
  EXPECT_TRUE(ask(server.url()).ok());
}

TEST(Session, sends_the_key_and_the_question) {
  std::string request;
  const ScriptedServer server({[&](Wire& wire) {
    request = wire.request();
    wire.answer(kWhole);
  }});
  auto session = Session::open({.url = server.url() + "/models/a/v1/", .key = "secret"});
  ASSERT_TRUE(session.ok());
  Question question{.model = "m", .chat = true, .text = "hi"};
  question.answer.samples = 1;
  question.answer.max_tokens = 9;
  question.answer.stop_tokens = {3};
  ask(**session, question);
  EXPECT_THAT(request, StartsWith("POST /models/a/v1/chat/completions HTTP/1.1\r\n"));
  EXPECT_THAT(request, HasSubstr("\r\nAuthorization: Bearer secret\r\n"));
  EXPECT_THAT(request, HasSubstr(R"({"model":"m","messages":[{"role":"user","content":"hi"}],)"
                                 R"("max_tokens":9,"n":1,"stop_token_ids":[3],"stream":true,)"
                                 R"("stream_options":{"include_usage":true}})"));
}

TEST(Session, lists_models) {
  const ScriptedServer server({[](Wire& wire) {
    EXPECT_THAT(wire.request(), StartsWith("GET /v1/models HTTP/1.1\r\n"));
    wire.answer(R"({"object": "list", "data": [{"id": "a"}, {"id": "b"}]})");
    wire.request();
    wire.answer(R"({"data": [17]})");
    wire.request();
    wire.answer(R"({"error": {"message": "no key"}})", "application/json", "401 Unauthorized");
  }});
  const auto session = session_of(server.url());
  const auto names = session->models();
  ASSERT_TRUE(names.ok()) << names.status().message();
  EXPECT_THAT(*names, ElementsAre("a", "b"));
  EXPECT_THAT(std::string(session->models().status().message()), HasSubstr("list of models"));
  EXPECT_THAT(std::string(session->models().status().message()), HasSubstr("HTTP 401: no key"));
}

TEST(Session, says_what_the_server_says_is_wrong) {
  const auto refused = [](std::string_view body) {
    return ask_script([&](Wire& wire) {
      wire.request();
      wire.answer(body, "application/json", "429 Too Many Requests");
    });
  };
  const Answer openai = refused(R"({"error": {"message": "slow down", "type": "x"}})");
  EXPECT_EQ(openai.trouble, Trouble::refused);
  EXPECT_EQ(openai.status, 429u);
  EXPECT_EQ(openai.message, "HTTP 429: slow down");
  EXPECT_EQ(refused(R"({"detail": "later"})").message, "HTTP 429: later");
  EXPECT_EQ(refused("go\naway\x1b[0m").message, "HTTP 429: go\\naway\\x1B[0m");
  const Answer within = ask_events({piece("a"), R"({"error": {"message": "broke"}})"});
  EXPECT_EQ(within.trouble, Trouble::server);
  EXPECT_EQ(within.message, "broke");
}

TEST(Session, says_that_a_stream_was_cut) {
  const Answer silent = ask_script([](Wire& wire) { wire.request(); });
  EXPECT_EQ(silent.trouble, Trouble::closed);
  EXPECT_THAT(silent.message, HasSubstr("without a response"));
  const Answer half = ask_script([](Wire& wire) {
    wire.request();
    wire.begin_events();
    wire.event(piece("a"));
  });
  EXPECT_EQ(half.trouble, Trouble::closed);
  EXPECT_EQ(half.samples[0].text, "a");
  const Answer without_done = ask_events({piece("a")});
  EXPECT_EQ(without_done.trouble, Trouble::closed);
  EXPECT_THAT(without_done.message, HasSubstr("[DONE]"));
}

TEST(Session, takes_an_end_without_its_last_word) {
  const Answer finished = ask_events({piece("a", "\"stop\"")});
  EXPECT_TRUE(finished.ok()) << finished.message;
  const Answer hung_up = ask_script([](Wire& wire) {
    wire.request();
    wire.begin_events();
    wire.event(piece("a", "\"stop\""));
    wire.event("[DONE]");
  });
  EXPECT_TRUE(hung_up.ok()) << hung_up.message;
}

TEST(Session, gives_up_on_silence) {
  const Answer answer = ask_script(
      [](Wire& wire) {
        wire.request();
        wire.begin_events();
        wire.event(piece("a"));
        wire.wait();
      },
      {.model = "m"}, 50);
  EXPECT_EQ(answer.trouble, Trouble::timeout);
  EXPECT_THAT(answer.message, HasSubstr("silent"));
}

TEST(Session, says_that_nobody_listens) {
  std::string url;
  {
    const TemporaryFolder folder;
    url = "unix:" + folder.path("socket");
  }
  const Answer answer = ask(url);
  EXPECT_EQ(answer.trouble, Trouble::connect);
  EXPECT_THAT(answer.message, HasSubstr("cannot connect to 'unix:"));
}

TEST(Session, stops_what_is_under_way) {
  std::unique_ptr<Session> session;
  const ScriptedServer server({[&](Wire& wire) {
    wire.request();
    session->stop();
    wire.wait();
  }});
  session = session_of(server.url());
  EXPECT_EQ(ask(*session, {.model = "m"}).trouble, Trouble::stopped);
  EXPECT_EQ(ask(*session, {.model = "m"}).trouble, Trouble::stopped);
}

TEST(Session, refuses_addresses_and_keys_that_are_none) {
  for (const char* url :
       {"", "localhost:8000", "ftp://x", "http://", "http://h:0", "http://h:x", "http://h:70000",
        "http://a b", "http://u@h", "http://h/?x", "unix:", "http://[::1", "http://h:80x"}) {
    EXPECT_FALSE(Session::open({.url = url}).ok()) << url;
  }
  EXPECT_FALSE(Session::open({.url = "http://127.0.0.1", .key = "a\r\nX: y"}).ok());
  EXPECT_FALSE(Session::open({.url = "http://127.0.0.1", .authorities = "any"}).ok());
}

TEST(Session, says_that_a_host_has_no_address) {
  const Answer answer = ask("http://" + std::string(70, 'h'));
  EXPECT_EQ(answer.trouble, Trouble::connect);
  EXPECT_THAT(answer.message, HasSubstr("was not found"));
}

// What a hostile server may send: every one is a sentence, none takes the program with it.
class HostileTest : public ::testing::Test {
 protected:
  static void expect_protocol(const Script& script, const std::string& message) {
    const Answer answer = ask_script(script);
    EXPECT_EQ(answer.trouble, Trouble::protocol) << answer.message;
    EXPECT_THAT(answer.message, HasSubstr(message));
    EXPECT_LT(answer.message.size(), 1000u);
    EXPECT_EQ(answer.message.find('\n'), std::string::npos);
  }
  static void expect_of_event(const std::string& data, const std::string& message) {
    expect_protocol(
        [&](Wire& wire) {
          wire.request();
          wire.begin_events();
          wire.event(data);
          wire.wait();
        },
        message);
  }
  // Sends it again and again, until the client has had enough.
  static Script endless(const std::string& begin, const std::string& again) {
    return [=](Wire& wire) {
      wire.request();
      if (!wire.send(begin)) return;
      while (wire.send(again)) continue;
    };
  }
};

TEST_F(HostileTest, no_http) {
  expect_protocol(
      [](Wire& wire) {
        wire.request();
        wire.send("SSH-2.0-OpenSSH_9.2\r\n\r\n");
      },
      "no HTTP");
}

TEST_F(HostileTest, endless_heads) {
  const std::string field = "X: " + std::string(1000, 'x') + "\r\n";
  expect_protocol(endless("HTTP/1.1 200 OK\r\n", field), "too long");
  expect_protocol(endless("HTTP/1.1 200 ", std::string(1000, 'x')), "too long");
  expect_protocol(endless("", "HTTP/1.1 100 Continue\r\n\r\n"), "1xx");
}

TEST_F(HostileTest, endless_chunk_heads) {
  expect_protocol(
      endless("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", std::string(1000, 'x')),
      "");
}

TEST_F(HostileTest, endless_events) {
  expect_protocol(endless("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: ",
                          std::string(1 << 16, 'x')),
                  "longer than 16 MiB");
}

TEST_F(HostileTest, events_that_are_none) {
  expect_of_event("{\"choices\": ", "no JSON");
  expect_of_event("[1]", "no JSON object");
  expect_of_event("\xff\xfe", "no JSON");
  expect_of_event("{\"choices\": [{\"text\": \"\xff\"}]}", "no JSON");
  expect_of_event(std::string(100000, '['), "no JSON");
  expect_of_event(R"({"choices": [{"index": 7, "text": "x"}]})", "nobody asked for");
}

TEST_F(HostileTest, fields_of_wrong_kinds) {
  const Answer answer = ask_events(
      {R"({"choices": [{"index": -1, "text": 5, "logprobs": 7, "token_ids": {"a": 1}}]})",
       R"({"choices": [null, 3, "x", {"token_ids": [-1, 1e9, 99999999999999999999, "a"]}]})",
       R"({"choices": {"a": 1}, "usage": "many"})",
       R"({"usage": {"completion_tokens": -5, "prompt_tokens": 1.5}})", "[DONE]"});
  EXPECT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.prompt_tokens, 0u);
  EXPECT_EQ(answer.tokens, 0u);
}

TEST_F(HostileTest, answers_without_one) {
  expect_protocol(
      [](Wire& wire) {
        wire.request();
        wire.answer("{}");
      },
      "no choices");
  expect_protocol(
      [](Wire& wire) {
        wire.request();
        wire.answer("<html>", "text/html");
      },
      "no JSON object: '<html>'");
}

TEST(Load, keeps_so_many_in_flight) {
  // One connection carries them all, so that each was sent when the one before had its answer.
  const ScriptedServer server({[](Wire& wire) {
    for (int i = 0; i < 4; ++i) {
      EXPECT_THAT(wire.request(), HasSubstr("\"prompt\":\"" + std::to_string(i) + "\""));
      wire.answer(kWhole);
    }
  }});
  LoadPlan plan{.in_flight = 1};
  for (int i = 0; i < 4; ++i) plan.requests.push_back({{.model = "m", .text = std::to_string(i)}});
  std::vector<size_t> ended;
  const LoadResult result = run_load(*session_of(server.url()), plan, [&](const LoadRow& row) {
    EXPECT_TRUE(row.answer.ok()) << row.answer.message;
    EXPECT_LE(row.due_ns, row.answer.sent_ns);
    ended.push_back(row.index);
  });
  EXPECT_THAT(ended, ElementsAre(0u, 1u, 2u, 3u));
  EXPECT_EQ(result.unsent, 0u);
}

TEST(Load, sends_when_requests_are_due) {
  std::vector<std::string> order;
  const Script one = [&](Wire& wire) {
    const std::string request = wire.request();
    order.push_back(request.substr(request.find("\"prompt\":\"") + 10, 1));
    wire.answer(kWhole);
    wire.wait();
  };
  std::vector<LoadRow> rows;
  LoadResult result;
  {
    const ScriptedServer server({one});
    LoadPlan plan;
    plan.requests = {{{.model = "m", .text = "b"}, 40'000'000}};
    result = run_load(*session_of(server.url()), plan,
                      [&](LoadRow row) { rows.push_back(std::move(row)); });
  }
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].due_ns, result.start_ns + 40'000'000);
  EXPECT_GE(rows[0].answer.sent_ns, rows[0].due_ns);
  EXPECT_THAT(order, ElementsAre("b"));
}

TEST(Load, counts_what_was_never_sent) {
  std::unique_ptr<Session> session;
  const ScriptedServer server({[&](Wire& wire) {
    wire.request();
    session->stop();
    wire.wait();
  }});
  session = session_of(server.url());
  LoadPlan plan{.in_flight = 1};
  plan.requests.resize(5);
  std::vector<Trouble> troubles;
  const LoadResult result =
      run_load(*session, plan, [&](const LoadRow& row) { troubles.push_back(row.answer.trouble); });
  EXPECT_THAT(troubles, ElementsAre(Trouble::stopped));
  EXPECT_EQ(result.unsent, 4u);
}

}  // namespace
}  // namespace tenon::client
