#include "tools/tenon/shell/examples.h"

#include <CLI/CLI.hpp>
#include <string_view>

#include "core/base/text.h"

namespace tenon {
namespace {

// A command's path below the program, and one of its examples without the program's name.
constexpr std::pair<std::string_view, std::string_view> kExamples[] = {
    {"run", "run \"Once upon a time\" --max-tokens 64 --seed 7"},
    {"run", "run --file question.txt --model llama-1b --set kv_cache.dtype=i8"},
    {"run", "run --workload configs/workloads/uneven32.toml --json"},
    {"chat", "chat --model qwen3-0.6b --system \"Be brief.\""},
    {"serve", "serve --model llama-1b --port 8000"},
    {"serve", "serve continuous.toml chunked.toml --keys keys.txt"},
    {"load", "load http://127.0.0.1:8000 --prompts prompts.jsonl --in-flight 8"},
    {"load", "load http://127.0.0.1:8000 --workload configs/workloads/uneven32.toml --rate 4"},
    {"compare",
     "compare --arm scheduler.plugin=chunked --workload configs/workloads/uneven32.toml"},
    {"compare", "compare configs/comparisons/batching.toml --budget 2m --pictures svg"},
    {"compare show", "compare show comparisons/batching-20260101-120000"},
    {"bench", "bench --model llama-1b --decode-tokens 24"},
    {"embed", "embed \"a text\" \"another one\" --similarity"},
    {"model info", "model info llama-1b --plan"},
    {"model convert", "model convert llama-1b llama-1b.gguf --type q8_0"},
    {"model quantize", "model quantize llama-1b llama-1b-awq --method awq --calibrate text.txt"},
    {"model perplexity", "model perplexity llama-1b --file text.txt --context 512"},
    {"plugins new", "plugins new scheduler acme.mine"},
    {"plugins build", "plugins build mine.cc"},
    {"plugins check", "plugins check libtenon-scheduler-acme-mine.so --quick"},
    {"plugins inspect", "plugins inspect scheduler/chunked"},
    {"config explain", "config explain my.toml --set scheduler.plugin=fair"},
    {"completion", "completion bash > ~/.local/share/bash-completion/completions/tenon"},
    {"man", "man model info | man -l -"},
};

CLI::App* below(CLI::App& app, std::string_view path) {
  CLI::App* at = &app;
  for (const std::string_view name : split(path, ' ')) {
    const auto found =
        at->get_subcommands([&](const CLI::App* one) { return one->get_name() == name; });
    if (found.empty()) return nullptr;
    at = found.front();
  }
  return at;
}

}  // namespace

void add_examples(Command program) {
  for (const auto& [path, example] : kExamples) {
    CLI::App* command = below(program.parser(), path);
    if (command == nullptr) continue;
    const std::string before = command->get_footer();
    command->footer((before.empty() ? "Examples:" : before) + "\n    tenon " +
                    std::string(example));
  }
}

}  // namespace tenon
