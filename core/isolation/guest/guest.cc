#include "core/isolation/guest/guest.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <thread>

#include "core/base/machine/floating_point_state.h"
#include "core/isolation/description.h"
#include "core/isolation/guest/sandbox.h"
#include "core/isolation/process.h"
#include "core/plugin/options.h"
#include "core/plugin/registry.h"

namespace tenon {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

GuestPage* guest_page = nullptr;

// For the program to read when it finds that this process is no more.
void leave_words(const char* text) noexcept {
  if (guest_page == nullptr || guest_page->last_words_bytes.load() != 0) return;
  const size_t bytes = std::min(std::strlen(text), sizeof(guest_page->last_words));
  std::memcpy(guest_page->last_words, text, bytes);
  guest_page->last_words_bytes.store(static_cast<uint32_t>(bytes), std::memory_order_release);
}

[[noreturn]] void end_by_exception() {
  try {
    if (const std::exception_ptr thrown = std::current_exception()) std::rethrow_exception(thrown);
    leave_words("it called std::terminate");
  } catch (const std::bad_alloc&) {
    leave_words("it found no more memory (engine.process_memory)");
  } catch (const std::exception& error) {
    char text[256];
    std::snprintf(text, sizeof(text), "it threw an exception: %s", error.what());
    leave_words(text);
  } catch (...) {
    leave_words("it threw an exception");
  }
  std::abort();
}

// Ends with the program, also where that one is killed.
void end_with_program() {
  std::thread([] {
    char byte;
    while (::read(kGuestLifeFd, &byte, 1) > 0) {
    }
    ::_exit(0);
  }).detach();
}

// From here on no more than so much in addition; sanitizers need room that looks endless.
void limit_memory(uint64_t more_bytes) {
  rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  if (kSanitized) return;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  unsigned long pages = 0;
  if (file == nullptr || std::fscanf(file, "%lu", &pages) != 1) std::_Exit(1);
  std::fclose(file);
  const rlim_t bytes = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + more_bytes;
  const rlimit limit{bytes, bytes};
  ::setrlimit(RLIMIT_AS, &limit);
}

// Everything about the one plugin of this process. Lane 0 is served by the first thread, which
// alone makes and destroys; others wait until there is something to serve.
class Guest {
 public:
  explicit Guest(std::byte* memory)
      : memory_(memory), page_(reinterpret_cast<GuestPage*>(memory)) {}

  void start_other_lanes() {
    for (uint32_t i = 1; i < page_->sizes.lanes; ++i) {
      std::thread([this, i] { serve(i); }).detach();
    }
  }
  [[noreturn]] void serve(uint32_t index) {
    const Lane lane(memory_ + kGuestPageBytes, page_->sizes, index);
    for (;;) {
      lane.wait_for_call();
      const uint64_t bytes = lane.header().call_bytes.load(std::memory_order_relaxed);
      WireReader in(lane.call_room().first(std::min<size_t>(bytes, lane.call_room().size())));
      const auto method = static_cast<GuestMethod>(lane.header().method.load());
      // Acquires what lane 0 made: the program's word, which leads here, crosses processes.
      GuestServer* server = server_.load(std::memory_order_acquire);
      GuestReply reply(lane.reply_room(), host_.get());
      const KeepFloatingPointState keep;
      if (method <= GuestMethod::destroy) {
        control(method, in, reply);
      } else if (server != nullptr) {
        host_->set_now_ns(in.get<int64_t>());
        server->serve(method, in, lane, reply);
      }
      if (!reply.ok()) {
        reply = GuestReply(lane.reply_room(), nullptr);
        reply.begin(Status::error(StatusCode::failed, "its answer is longer than there is room"));
      }
      lane.reply(reply.bytes());
    }
  }

 private:
  void control(GuestMethod method, WireReader& in, GuestReply& reply) {
    if (method == GuestMethod::destroy) {
      if (instance_ != nullptr) plugin_->destroy(instance_);
      instance_ = nullptr;
      reply.begin({});
      return;
    }
    const std::string path(in.get_text()), sha256(in.get_text());
    const auto library = load_library(path, sha256);
    if (!library.ok()) {
      reply.begin(library.status());
    } else if (method == GuestMethod::describe) {
      write_descriptors(**library, reply.begin({}));
    } else if (method == GuestMethod::score) {
      score(**library, in, reply);
    } else if (method == GuestMethod::examine) {
      examine(**library, in, reply);
    } else {
      create(**library, in, reply);
    }
  }
  void score(const LoadedLibrary& library, WireReader& in, GuestReply& reply) {
    const std::string interface(in.get_text()), id(in.get_text());
    const auto facts = in.get<HostFacts>();
    const PluginDescriptor* plugin = library.find(interface, id);
    reply.begin({}).put(plugin == nullptr ? uint32_t{0} : score_of(*plugin, facts));
  }
  void examine(const LoadedLibrary& library, WireReader& in, GuestReply& reply) {
    const auto facts = in.get<HostFacts>();
    std::vector<uint32_t> scores;
    for (const PluginDescriptor& plugin : library.descriptors) {
      scores.push_back(score_of(plugin, facts));
    }
    WireWriter& out = reply.begin({});
    write_descriptors(library, out);
    out.put_list(scores);
  }
  void create(const LoadedLibrary& library, WireReader& in, GuestReply& reply) {
    const std::string interface(in.get_text()), id(in.get_text());
    const auto host_facts = in.get<HostFacts>();
    facts_ = read_facts(in);
    facts_view_ = facts_.view();
    const std::vector<Setting> settings = read_settings(in);
    plugin_ = library.find(interface, id);
    if (plugin_ == nullptr || !in.ok()) {
      reply.begin(Status::error(StatusCode::failed, "its file changed; start again"));
      return;
    }
    host_ = std::make_unique<GuestHost>(host_facts);
    reply = GuestReply(reply_room(), host_.get());
    auto options = fill_options(*plugin_, settings);
    Status made = options.take_status();
    if (options.ok()) {
      options_ = *std::move(options);
      made = plugin_->create(host_->services(), facts_view_, options_.data(), &instance_);
    }
    if (made.ok()) made = serve_instance(interface);
    reply.begin(made);
  }
  std::span<std::byte> reply_room() const {
    return Lane(memory_ + kGuestPageBytes, page_->sizes, 0).reply_room();
  }
  Status serve_instance(std::string_view interface) {
    if (instance_ == nullptr) {
      return Status::error(StatusCode::failed,
                           "it was created without an error and without an "
                           "instance; its create function is at fault");
    }
    if (interface == kSchedulerInterface) {
      made_ = serve_scheduler(*static_cast<Scheduler*>(instance_));
    } else if (interface == kSamplerInterface) {
      made_ = serve_sampler(*static_cast<Sampler*>(instance_));
    } else {
      made_ = serve_drafter(*static_cast<Drafter*>(instance_));
    }
    server_.store(made_.get(), std::memory_order_release);
    return {};
  }

  std::byte* const memory_;
  GuestPage* const page_;
  ReadFacts facts_;
  PipelineFacts facts_view_;
  FilledOptions options_;
  std::unique_ptr<GuestHost> host_;
  const PluginDescriptor* plugin_ = nullptr;
  void* instance_ = nullptr;
  std::unique_ptr<GuestServer> made_;
  std::atomic<GuestServer*> server_{nullptr};
};

}  // namespace

int run_guest() {
  struct stat shared {};
  if (::fstat(kGuestMemoryFd, &shared) != 0 ||
      shared.st_size < static_cast<off_t>(kGuestPageBytes)) {
    std::fputs("tenon-guest runs plugins for tenon, which starts it: see docs/guard.md\n", stderr);
    return 2;
  }
  ::close_range(kGuestLifeFd + 1, ~0u, 0);
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  void* memory = ::mmap(nullptr, static_cast<size_t>(shared.st_size), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_NORESERVE, kGuestMemoryFd, 0);
  if (memory == MAP_FAILED) return 1;
  guest_page = static_cast<GuestPage*>(memory);
  std::set_terminate(end_by_exception);
  // Each further arena would take address space that the plugin is to have.
  ::mallopt(M_ARENA_MAX, 1);
  if (!kSanitized) leave_others_alone();
  end_with_program();
  Guest& guest = *new Guest(static_cast<std::byte*>(memory));
  guest.start_other_lanes();
  limit_memory(guest_page->memory_bytes);
  if (!kSanitized) {
    const bool there = refuse_system_calls(guest_page->refused);
    guest_page->sandbox.store(there ? Sandbox::there : Sandbox::impossible);
  }
  guest.serve(0);
}

}  // namespace tenon
