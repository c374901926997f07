// A story in C++: the text that `tenon run "Once upon a time" --max-tokens 24` prints.
#include <tenon/llm.h>

#include <cstdio>

int main() {
  auto pipeline = tenon::llm::Pipeline::open({});
  if (!pipeline) return std::puts(pipeline.error().message.c_str()), 1;
  auto answer = pipeline->generate("Once upon a time", {{"max_tokens", "24"}});
  if (!answer) return std::puts(answer.error().message.c_str()), 1;
  std::puts(answer->text.c_str());
}
