// A scheduler that plans soundly, and tries once what an isolated plugin may not do; the host hears
// what came of each.
#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <tenon/scheduler.h>
#include <tenon/sdk/plugin.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <thread>

namespace {

using namespace tenon;

struct Options {
  std::string_view file;
};
constexpr OptionSpec kOptions[] = {
    sdk::text<&Options::file>("file", "", "what it tries to write"),
};
TENON_CHECK_OPTIONS(kOptions);

class Escapes {
 public:
  Escapes(const HostServices& host, const PipelineFacts&, const Options& options)
      : host_(host), file_(options.file) {}

  void plan(const SchedulerView& view, KvLedger& ledger, PlanOut& out) {
    if (!tried_) try_all();
    tried_ = true;
    for (const auto& list : {view.running, view.waiting}) {
      for (const SequenceView& sequence : list) {
        const uint32_t left = sequence.known_tokens - sequence.computed_tokens;
        if (ledger.try_grow(sequence.seq, left, left).granted == left) {
          out.push({sequence.seq, left, 0});
        }
      }
    }
  }

 private:
  void try_all() {
    tell("socket", ::socket(AF_UNIX, SOCK_STREAM, 0));
    tell("write", ::open(file_.c_str(), O_WRONLY | O_CREAT, 0600));
    tell("read", ::open("/proc/self/status", O_RDONLY));
    tell("unlink", ::unlink((file_ + ".none").c_str()));
    char name[] = "/nonexistent";
    char* const arguments[] = {name, nullptr};
    tell("execve", ::execve(name, arguments, nullptr));
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    tell("fork", child);
    tell("ptrace", ::ptrace(PTRACE_ATTACH, 0, nullptr, nullptr));
    tell("kill", ::kill(::getppid(), 0));
    const rlimit none{0, 0};
    tell("setrlimit", ::setrlimit(RLIMIT_CORE, &none));
    // The memory that an isolated plugin's process shares with the program.
    char shared[64] = {};
    if (::readlink("/proc/self/fd/3", shared, sizeof(shared) - 1) > 0 &&
        std::strncmp(shared, "/memfd:tenon-guest", 18) == 0) {
      tell("shrink", ::ftruncate(3, 0));
    }
    // Threads stay possible.
    int thread = -1;
    std::thread([&] { thread = 0; }).join();
    tell("thread", thread);
  }
  void tell(const std::string& what, long result) {
    const std::string text = what + ": " + (result >= 0 ? "done" : std::strerror(errno));
    host_.log(host_.context, LogLevel::error, text);
  }

  HostServices host_;
  std::string file_;
  bool tried_ = false;
};

constexpr PluginDescriptor kEscapes =
    sdk::descriptor<Scheduler, Escapes, Options>({.id = "test.escapes",
                                                  .version = "1.0.0",
                                                  .summary = "plans, and tries what it may not",
                                                  .license = "Apache-2.0"},
                                                 kOptions);

}  // namespace

TENON_PLUGIN_LIBRARY(&kEscapes)
