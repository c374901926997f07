// What plugins of every interface keep to: options, creation and destruction, the state of the
// thread, and the same answers to the same questions.
#include <tenon/extensions/kv_store.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/base/machine/floating_point_state.h"
#include "core/base/quote.h"
#include "core/conformance/cases/cases.h"
#include "core/conformance/cases/exercise.h"
#include "core/conformance/watch/heap_growth.h"
#include "core/conformance/watch/import_watch.h"
#include "core/plugin/plugin_host.h"

namespace tenon {
namespace {

constexpr uint32_t kCycles = 200;
constexpr uint32_t kUses = 16;
constexpr uint64_t kLeakBytes = 16;  // a cycle: less is the allocator's own doing
constexpr uint64_t kLeakBytesOfUse = 512;

Finding defaults(Subject& subject) {
  auto made = subject.make_object();
  if (!made.ok()) return broke(message_of(made.status()));
  return {};
}

Finding unknown_extension(Subject& subject) {
  auto made = subject.make_object();
  if (!made.ok()) return skipped(message_of(made.status()));
  for (const std::string_view id : {"", "nobody.knows/1", "kv_eviction", "\xff\xfe"}) {
    if (made->extension(id) != nullptr) {
      return broke("extension('" + one_line(id) + "') is something");
    }
  }
  return {};
}

// Creates and destroys one; returns how much of what its host gave it did not give back.
Result<uint64_t> live_and_die(Subject& subject) {
  TENON_ASSIGN_OR_RETURN(const FilledOptions options, subject.fill());
  const PluginDescriptor& plugin = subject.descriptor();
  const PluginHost host(subject.name(), subject.host(), subject.clock(), &subject.extensions());
  void* instance = nullptr;
  TENON_RETURN_IF_ERROR(plugin.create(host.services(), subject.facts(), options.data(), &instance));
  if (instance == nullptr) return failed("`create` neither fails nor makes an instance");
  plugin.destroy(instance);
  return host.live_allocations();
}

Finding created_repeatedly(Subject& subject) {
  uint64_t kept = 0;
  const auto growth = growth_of(kCycles, kLeakBytes, [&]() -> Status {
    TENON_ASSIGN_OR_RETURN(const uint64_t left, live_and_die(subject));
    kept = std::max(kept, left);
    return {};
  });
  if (!growth.ok()) return broke(message_of(growth.status()));
  if (kept > 0) {
    return {CaseVerdict::leak,
            std::to_string(kept) + " allocations of the host were not freed by `destroy`"};
  }
  if (!growth->has_value()) return {};
  return {CaseVerdict::leak, std::to_string(**growth) +
                                 " bytes are lost each time an instance is created and destroyed"};
}

// Host services without any memory.
HostServices poor(const PluginHost& host) {
  HostServices services = host.services();
  services.allocate = [](void*, Space, uint64_t, uint64_t) noexcept -> void* { return nullptr; };
  return services;
}

Finding created_without_memory(Subject& subject) {
  auto options = subject.fill();
  if (!options.ok()) return skipped(message_of(options.status()));
  const PluginHost host(subject.name(), subject.host(), subject.clock(), &subject.extensions());
  const HostServices services = poor(host);
  void* instance = nullptr;
  const PluginDescriptor& plugin = subject.descriptor();
  const Status status = plugin.create(services, subject.facts(), options->data(), &instance);
  if (!status.ok()) {
    if (status.message().empty()) return broke("`create` fails without a word");
    return {};
  }
  if (instance == nullptr) return broke("`create` neither fails nor makes an instance");
  plugin.destroy(instance);
  return {};
}

Finding keeps_floating_point_state(Subject& subject) {
  const FloatingPointState before = FloatingPointState::current();
  const auto answers = exercise(subject, subject.seed());
  const bool same = before == FloatingPointState::current();
  before.restore();
  if (!same) return broke("rounding, subnormals or traps of the thread differ behind its calls");
  if (!answers.ok()) return skipped(message_of(answers.status()));
  return {};
}

Finding changes_no_view(Subject& subject) {
  subject.look_closely();
  const auto answers = exercise(subject, subject.seed());
  if (answers.ok()) return {};
  if (answers.status().code() == StatusCode::unsupported) {
    return skipped(message_of(answers.status()));
  }
  return broke(message_of(answers.status()));
}

Finding answers_are_the_same(Subject& subject) {
  for (uint32_t round = 0; round < subject.effort(); ++round) {
    const auto once = exercise(subject, subject.seed() + round);
    if (!once.ok()) return skipped(message_of(once.status()));
    const auto again = exercise(subject, subject.seed() + round);
    if (!again.ok()) return broke("a second instance fails: " + message_of(again.status()));
    for (size_t i = 0; i < std::max(once->size(), again->size()); ++i) {
      const std::string one = i < once->size() ? (*once)[i] : "nothing";
      const std::string other = i < again->size() ? (*again)[i] : "nothing";
      if (one != other) {
        return broke("one instance answers '" + one_line(one) +
                     "', another one, asked the same, '" + one_line(other) + "'");
      }
    }
  }
  return {};
}

// What is written to this process's standard output while it lives.
class WrittenOutput {
 public:
  WrittenOutput() : kept_(::dup(STDOUT_FILENO)), file_(std::tmpfile()) {
    std::fflush(stdout);
    if (file_ != nullptr) ::dup2(::fileno(file_), STDOUT_FILENO);
  }
  WrittenOutput(const WrittenOutput&) = delete;
  WrittenOutput& operator=(const WrittenOutput&) = delete;
  ~WrittenOutput() {
    std::fflush(stdout);
    ::dup2(kept_, STDOUT_FILENO);
    ::close(kept_);
    if (file_ != nullptr) std::fclose(file_);
  }

  // The beginning of it.
  std::string text() const {
    std::fflush(stdout);
    char bytes[200];
    const ssize_t got = file_ == nullptr ? 0 : ::pread(::fileno(file_), bytes, sizeof(bytes), 0);
    return {bytes, static_cast<size_t>(std::max<ssize_t>(got, 0))};
  }

 private:
  int kept_;
  std::FILE* file_;
};

Finding keeps_to_the_host(Subject& subject) {
  struct Forbidden {
    WatchedCall kind;
    const char* instead;
  };
  constexpr Forbidden kForbidden[] = {
      {WatchedCall::clock, "reads a clock, or waits for one – time comes in views and arguments"},
      {WatchedCall::randomness, "draws from a generator of its own – randomness comes from keys"},
      {WatchedCall::file, "opens a file – texts and models come from the host"},
      {WatchedCall::thread, "starts a thread or a process – work is cut into slices by the host"},
      {WatchedCall::process, "changes what the program has once, for everybody in it"},
  };
  const ImportWatch watch(reinterpret_cast<const void*>(subject.descriptor().create));
  std::string printed;
  {
    const WrittenOutput output;
    // What it could not answer is other cases' affair.
    static_cast<void>(exercise(subject, subject.seed()).ok());
    printed = output.text();
  }
  // A store of K/V may open files and sockets, and start threads.
  const bool is_store = subject.descriptor().interface == kKvStoreInterface;
  for (const Forbidden& one : kForbidden) {
    if (is_store && one.kind != WatchedCall::process) continue;
    if (const auto call = watch.seen(one.kind)) {
      return broke("it calls " + std::string(call->function) + ", which " + one.instead);
    }
  }
  if (printed.empty()) return {};
  return broke("it writes to standard output: '" + one_line(printed, 80) +
               "' – lines of text go through HostServices::log");
}

Finding exercised_repeatedly(Subject& subject) {
  const auto growth = growth_of(kUses, kLeakBytesOfUse, [&]() -> Status {
    auto answers = exercise(subject, subject.seed());
    return answers.ok() ? Status() : answers.take_status();
  });
  if (!growth.ok()) return skipped(message_of(growth.status()));
  if (!growth->has_value()) return {};
  return {CaseVerdict::leak,
          std::to_string(**growth) +
              " bytes are lost each time an instance is created, used, destroyed"};
}

}  // namespace

Result<Transcript> exercise(Subject& subject, uint64_t seed) {
  if (std::string needs = subject.needs(); !needs.empty()) return unsupported(needs);
  using Call = Result<Transcript> (*)(Subject&, uint64_t);
  constexpr std::pair<std::string_view, Call> kCalls[] = {
      {kSchedulerInterface, &exercise_scheduler}, {kKvCacheInterface, &exercise_kv_cache},
      {kSamplerInterface, &exercise_sampler},     {kDrafterInterface, &exercise_drafter},
      {kLinearInterface, &exercise_linear},       {kAttentionInterface, &exercise_attention},
      {kStateInterface, &exercise_state},         {kKvStoreInterface, &exercise_kv_store}};
  for (const auto& [interface, call] : kCalls) {
    if (subject.descriptor().interface == interface) return call(subject, seed);
  }
  return unsupported("these cases know no interface of that name");
}

Result<Transcript> exercise_widely(Subject& subject, uint64_t seed) {
  if (subject.descriptor().interface == kSchedulerInterface) {
    return exercise_scheduler_widely(subject, seed);
  }
  if (subject.descriptor().interface == kKvCacheInterface) {
    return exercise_kv_cache_widely(subject, seed);
  }
  if (subject.descriptor().interface == kDrafterInterface) {
    return exercise_drafter_widely(subject, seed);
  }
  return exercise(subject, seed);
}

Result<Transcript> exercise_at_length(Subject& subject, uint64_t seed) {
  if (subject.descriptor().interface == kSchedulerInterface) {
    return exercise_scheduler_at_length(subject, seed);
  }
  if (subject.descriptor().interface == kKvCacheInterface) {
    return exercise_kv_cache_at_length(subject, seed);
  }
  if (subject.descriptor().interface == kDrafterInterface) {
    return exercise_drafter_at_length(subject, seed);
  }
  return exercise(subject, seed);
}

CaseList lifecycle_cases() {
  return {
      {"any.defaults",
       {},
       "descriptor.h",
       "One instance. `host`, `facts` and `options` stay valid",
       &defaults,
       Needs::a_plugin},
      {"any.unknown_extension",
       {},
       "descriptor.h",
       "Null when it has none of that id.",
       &unknown_extension,
       Needs::a_plugin},
      {"any.created_repeatedly",
       {},
       "types.h",
       "Nothing is kept across calls and nothing is freed across modules, unless a declaration "
       "says "
       "otherwise.",
       &created_repeatedly,
       Needs::a_plugin},
      {"any.no_memory", {}, "host.h", "Null when none.", &created_without_memory, Needs::a_plugin},
      {"any.floating_point_state",
       {},
       "host.h",
       "They are the only way back",
       &keeps_floating_point_state},
      {"any.keeps_to_the_host",
       {},
       "host.h",
       "They are the only way back: a plugin links nothing of the core, opens no files, starts no "
       "threads and reads no clock or random device of its own.",
       &keeps_to_the_host},
      {"any.views",
       {},
       "types.h",
       "a `…View` is borrowed and read-only, valid until the call that received it returns",
       &changes_no_view},
      {"any.same_answers",
       {},
       "host.h",
       "opens no files, starts no threads and reads no clock or random device of its own.",
       &answers_are_the_same},
      {"any.used_repeatedly", {}, "descriptor.h", "valid until `destroy`", &exercised_repeatedly},
  };
}

}  // namespace tenon
