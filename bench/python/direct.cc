// What a program in C++ does with libtenon, for overhead.py: reads works from standard input, and
// writes how many seconds each took.
//
//   batch COUNT TOKENS     so many prompts at once, until all answers are there
//   stream TOKENS          one prompt, whose answer comes in pieces
#include <tenon/llm.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace {

using tenon::llm::Call;
using tenon::llm::Pipeline;
using tenon::llm::Settings;

[[noreturn]] void fail(const std::string& message) {
  std::cerr << "direct: " << message << "\n";
  std::exit(1);
}

Settings settings(int tokens) {
  return {{"temperature", "0"}, {"ignore_eos", "true"}, {"max_tokens", std::to_string(tokens)}};
}

void run_batch(Pipeline& pipeline, int count, int tokens) {
  std::vector<Call> calls;
  for (int i = 0; i < count; ++i) {
    auto call = pipeline.submit("The " + std::to_string(i) + ". king", settings(tokens));
    if (!call) fail(call.error().message);
    calls.push_back(std::move(*call));
  }
  size_t made = 0;
  for (Call& call : calls) {
    auto answers = call.wait();
    if (!answers) fail(answers.error().message);
    made += answers->front().tokens.size();
  }
  if (made != static_cast<size_t>(count) * static_cast<size_t>(tokens)) fail("answers are short");
}

void run_stream(Pipeline& pipeline, int tokens) {
  size_t made = 0;
  std::string text;
  auto answer =
      pipeline.generate("The king", settings(tokens), [&](const tenon::llm::Delta& delta) {
        made += delta.token_count;
        text += delta.text;
        return true;
      });
  if (!answer) fail(answer.error().message);
  if (made != static_cast<size_t>(tokens)) fail("the answer is short");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) fail("usage: direct MODEL THREADS (an empty MODEL is the bundled one)");
  tenon::llm::Options options;
  options.model = argv[1];
  options.threads = static_cast<uint32_t>(std::atoi(argv[2]));
  auto pipeline = Pipeline::open(options);
  if (!pipeline) fail(pipeline.error().message);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string kind;
    int first = 0, second = 0;
    words >> kind >> first >> second;
    const auto begin = std::chrono::steady_clock::now();
    if (kind == "batch") {
      run_batch(*pipeline, first, second);
    } else {
      run_stream(*pipeline, first);
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::cout << took.count() << std::endl;
  }
  return 0;
}
