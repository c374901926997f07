#include <gtest/gtest.h>

#include "core/http/head_check.h"
#include "core/http/head_lines.h"
#include "core/http/message.h"

namespace tenon::http {
namespace {

unsigned status_of(std::vector<Field> fields, unsigned version = 11) {
  Request request;
  request.is_1_0 = version == 10;
  request.fields = std::move(fields);
  return check_head(request, version).status;
}

TEST(CheckHead, takes_what_is_clear) {
  EXPECT_EQ(status_of({{"host", "x"}}), 0u);
  EXPECT_EQ(status_of({{"host", "x"}, {"content-length", "12"}}), 0u);
  EXPECT_EQ(status_of({{"host", "x"}, {"transfer-encoding", "Chunked"}}), 0u);
  EXPECT_EQ(status_of({}, 10), 0u);
  EXPECT_EQ(status_of({{"host", "x"}, {"expect", "100-Continue"}}), 0u);
  EXPECT_EQ(status_of({{"host", "[::1]:8000"}}), 0u);
  EXPECT_EQ(status_of({{"host", ""}}), 0u);
}

TEST(CheckHead, refuses_what_two_readers_could_understand_differently) {
  const Field host{"host", "x"}, length{"content-length", "2"},
      chunks{"transfer-encoding", "chunked"};
  EXPECT_EQ(status_of({host, length, chunks}), 400u);
  EXPECT_EQ(status_of({host, length, length}), 400u);
  EXPECT_EQ(status_of({host, chunks, chunks}), 400u);
  EXPECT_EQ(status_of({host, {"content-length", "2, 2"}}), 400u);
  EXPECT_EQ(status_of({host, {"content-length", "+2"}}), 400u);
  EXPECT_EQ(status_of({host, {"content-length", ""}}), 400u);
  EXPECT_EQ(status_of({host, {"transfer-encoding", "gzip, chunked"}}), 400u);
  EXPECT_EQ(status_of({chunks}, 10), 400u);
  EXPECT_EQ(status_of({host, host}), 400u);
  for (const char* no_host : {"x y", "x, y", "x/y", "x@y"}) {
    EXPECT_EQ(status_of({{"host", no_host}}), 400u) << no_host;
  }
  EXPECT_EQ(status_of({}), 400u);
}

TEST(CheckHead, refuses_other_versions_and_expectations) {
  EXPECT_EQ(status_of({{"host", "x"}}, 20), 505u);
  EXPECT_EQ(status_of({{"host", "x"}}, 12), 505u);
  EXPECT_EQ(status_of({{"host", "x"}, {"expect", "tea"}}), 417u);
  EXPECT_EQ(status_of({{"expect", "100-continue"}}, 10), 417u);
}

// What is said of a head that comes in pieces of that size.
std::string fault_of(std::string_view head, size_t piece) {
  HeadLines lines;
  for (size_t i = 0; i < head.size(); i += piece) {
    const std::string_view fault = lines.fault_in(head.substr(i, piece));
    if (!fault.empty()) return std::string(fault);
  }
  return "";
}

TEST(HeadLines, are_refused_where_two_readers_could_cut_them_differently) {
  struct Case {
    std::string_view head, fault;
  };
  using namespace std::string_view_literals;
  const Case cases[] = {
      {"GET / HTTP/1.1\r\nA: b\r\n\r\n", ""},
      {"GET /?a HTTP/1.0\r\nA:b\r\nC:\r\n\r\n", ""},
      {"\r\nGET / HTTP/1.1\r\n\r\n", "empty line"},
      {"GET / HTTP/2.0\r\n\r\n", ""},                          // told by its version
      {"POST / HTTP/1.1\r\nA: b: c\r\n\r\n\n \n\0:\r"sv, ""},  // the body is another's
      {"GET / HTTP/1.1\nA: b\n\n", "LF alone"},
      {"\nGET / HTTP/1.1\r\n\r\n", "LF alone"},
      {"GET / HTTP/1.1\r\nA: b\nC: d\r\n\r\n", "LF alone"},
      {"GET / HTTP/1.1\r\nA: b\r\n\n", "LF alone"},
      {"GET / HTTP/1.1\r\nA: b\rC: d\r\n\r\n", "ends no line"},
      {"GET / HTTP/1.1\r\nA: b\r\r\n\r\n", "ends no line"},
      {"GET / HTTP/1.1\r\nA: b\r\n c: d\r\n\r\n", "second line"},
      {"GET / HTTP/1.1\r\n\tA: b\r\n\r\n", "second line"},
      {"GET / HTTP/1.1\r\nA: b\0\r\n\r\n"sv, "NUL"},
      {"GET / HTTP/1.1\r\nA : b\r\n\r\n", "name is none"},
      {"GET / HTTP/1.1\r\n: b\r\n\r\n", "name is none"},
      {"GET / HTTP/1.1\r\nA(: b\r\n\r\n", "name is none"},
      {"GET / HTTP/1.1\r\nA\r\n\r\n", "no colon"},
      {"GET  / HTTP/1.1\r\n\r\n", "first line"},
      {"GET /  HTTP/1.1\r\n\r\n", "first line"},
      {" GET / HTTP/1.1\r\n\r\n", "first line"},
      {"GET / HTTP/1.1 \r\n\r\n", "first line"},
      {"GET\t/ HTTP/1.1\r\n\r\n", "first line"},
      {"GET /a b HTTP/1.1\r\n\r\n", "first line"},
      {"GET / http/1.1\r\n\r\n", "first line"},
      {"GET /\r\n\r\n", "first line"},
      {"GET HTTP/1.1\r\n\r\n", "first line"},
      {"G@T / HTTP/1.1\r\n\r\n", "first line"},
  };
  for (const Case& known : cases) {
    for (const size_t piece : {1, 3, 1000}) {
      const std::string fault = fault_of(known.head, piece);
      EXPECT_EQ(fault.empty(), known.fault.empty()) << known.head << fault;
      EXPECT_NE(fault.find(known.fault), std::string::npos) << known.head << fault;
    }
  }
}

TEST(Target, is_a_path_and_a_query) {
  Request request;
  set_target("/a/b?c=d?e", request);
  EXPECT_EQ(request.path, "/a/b");
  EXPECT_EQ(request.query, "c=d?e");
  set_target("http://host:1/x", request);
  EXPECT_EQ(request.path, "/x");
}

TEST(ResponseHead, has_no_line_that_a_value_made) {
  const Response response{.status = 404, .fields = {{"X", "a\r\nSet-Cookie: b"}}};
  const std::string head = response_head(response, {.length = 3});
  EXPECT_TRUE(head.starts_with("HTTP/1.1 404 Not Found\r\n"));
  EXPECT_NE(head.find("X: a  Set-Cookie: b\r\n"), std::string::npos);
  EXPECT_NE(head.find("Content-Length: 3\r\n"), std::string::npos);
  EXPECT_TRUE(head.ends_with("\r\n\r\n"));
}

TEST(ResponseHead, says_how_the_body_ends) {
  const auto head = [](HeadOptions options) { return response_head({}, options); };
  EXPECT_NE(head({}).find("Transfer-Encoding: chunked"), std::string::npos);
  const std::string old = head({.is_1_0 = true, .keep_alive = false});
  EXPECT_EQ(old.find("Transfer-Encoding"), std::string::npos);
  EXPECT_NE(old.find("Connection: close"), std::string::npos);
  EXPECT_NE(head({.is_1_0 = true, .length = 0}).find("Connection: keep-alive"), std::string::npos);
}

TEST(ResponseHead, says_no_length_where_there_can_be_no_body) {
  for (const unsigned status : {204u, 304u}) {
    const std::string text = response_head({.status = status}, {.length = 0});
    EXPECT_EQ(text.find("Content-Length"), text.npos);
    EXPECT_EQ(text.find("Transfer-Encoding"), text.npos);
  }
}

TEST(PercentDecoding, refuses_half_an_escape) {
  std::string out;
  EXPECT_TRUE(percent_decoded("a%2Fb%20", out));
  EXPECT_EQ(out, "a/b ");
  for (const char* text : {"%", "%2", "a%g0", "%0g"}) EXPECT_FALSE(percent_decoded(text, out));
}

TEST(Chunk, states_its_size_in_hexadecimal) {
  EXPECT_EQ(chunk(std::string(26, 'x')), "1a\r\n" + std::string(26, 'x') + "\r\n");
}

}  // namespace
}  // namespace tenon::http
