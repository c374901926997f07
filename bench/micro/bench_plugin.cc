#include "bench/micro/bench_plugin.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "bench/micro/bench_machine.h"
#include "core/plugin/library.h"

namespace tenon::bench {
namespace {

[[noreturn]] void leave(std::string_view message) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(message.size()), message.data());
  std::exit(1);
}

const HostServices& services() {
  static const HostServices made = [] {
    HostServices host;
    host.facts = &machine().facts;
    host.log = [](void*, LogLevel, std::string_view) noexcept {};
    host.count = [](void*, std::string_view, uint64_t) noexcept {};
    host.allocate = [](void*, Space, uint64_t bytes, uint64_t alignment) noexcept -> void* {
      return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    };
    host.free = [](void*, Space, void* memory) noexcept { std::free(memory); };
    host.now_ns = [](void*) noexcept -> int64_t { return 0; };
    host.extension = [](void*, std::string_view) noexcept -> const void* { return nullptr; };
    return host;
  }();
  return made;
}

}  // namespace

void* make_plugin(std::string_view library, std::string_view interface, std::string_view id,
                  std::span<const PluginOption> options) {
  const std::string path = TENON_PLUGIN_FOLDER "/libtenon-" + std::string(library) + ".so";
  const auto loaded = load_library(path);
  if (!loaded.ok()) leave(loaded.status().message());
  const PluginDescriptor* descriptor = (*loaded)->find(interface, id);
  if (descriptor == nullptr) leave(path + " has no plugin " + std::string(id));
  const uint64_t alignment = descriptor->options_alignment;
  void* storage = std::aligned_alloc(
      alignment, (descriptor->options_bytes + alignment - 1) / alignment * alignment);
  descriptor->construct_options(storage);
  for (const PluginOption& option : options) {
    for (uint32_t i = 0; i < descriptor->option_count; ++i) {
      if (descriptor->options[i].key != option.key) continue;
      descriptor->options[i].store(storage, {.integer = option.value, .text = {}});
    }
  }
  static const PipelineFacts facts;
  void* instance = nullptr;
  const Status status = descriptor->create(services(), facts, storage, &instance);
  if (!status.ok()) leave(status.message());
  return instance;
}

}  // namespace tenon::bench
