#include "tools/tenon/shell/ranks.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/log.h"
#include "core/llm/open/ranks.h"
#include "core/parallel/mpi/launch_line.h"
#include "core/parallel/mpi/launch_witness.h"
#include "core/parallel/mpi/launched_processes.h"
#include "core/parallel/mpi/rank_session.h"
#include "core/parallel/shared_collective.h"
#include "tools/tenon/commands.h"
#include "tools/tenon/process/standard_output.h"
#include "tools/tenon/process/watchdog.h"
#include "tools/tenon/shell/flags.h"

namespace tenon {
namespace {

constexpr uint32_t kMostRanks = 64;
constexpr int kBeatsToWeigh = 20;  // ten a second

uint32_t& launched_count() {
  static uint32_t count = 0;
  return count;
}

uint32_t& launched() {
  static uint32_t count = 0;
  return count;
}

// A launcher that misses a rank ends the others by SIGTERM: before a signal counts, the watch looks
// whether that is why. Other ranks leave it to rank 0, which ends them.
std::atomic<int> signal_to_weigh{0};
std::atomic<bool> leads{false};
std::atomic<bool> far{false};  // ranks may be on several machines, each with a launcher's helper
struct sigaction before_ranks[NSIG];
void note_signal(int number) {
  signal_to_weigh = number;
}

void weigh_signals_first() {
  struct sigaction action {};
  action.sa_handler = note_signal;
  for (const int number : {SIGINT, SIGTERM}) ::sigaction(number, &action, &before_ranks[number]);
}

// Between machines nobody watches.
void let_signals_count() {
  for (const int number : {SIGINT, SIGTERM}) ::sigaction(number, &before_ranks[number], nullptr);
}

// Where there is a witness, whoever claims first speaks; it ends a launcher that stays as well.
void end_with_fault(const std::string& fault, bool speaks) {
  static std::atomic<bool> ends{false};
  while (ends.exchange(true)) ::pause();  // two watches may see the same
  if (fault.empty()) end_at_once(1, {});
  const std::optional<bool> claimed = claim_last_word();
  if (!claimed && (speaks || far)) end_launcher_if_it_stays();
  end_at_once(1, claimed.value_or(speaks) ? "tenon: " + fault + "; the run ends\n" : std::string());
}

// A launcher tells all ranks to end; one that is told so alone ends the run.
void weigh_own_signal(SharedCollective& ranks) {
  static int beats = 0;
  if (signal_to_weigh == 0 || ranks.leader_ends() || ++beats < kBeatsToWeigh) return;
  const std::string fault = name_of_rank(ranks.rank(), ranks.places()[ranks.rank()]) +
                            " was told to end by " +
                            (signal_to_weigh == SIGINT ? "SIGINT" : "SIGTERM");
  if (claim_last_word().value_or(true)) say("tenon: " + fault + "; the run ends");
  ranks.fail(fault);
}

// Nobody is missing. Ranks that are watched on each beat share memory.
void pass_signal_on() {
  auto* ranks = dynamic_cast<SharedCollective*>(llm::ranks_of_program());
  if (ranks == nullptr) return;
  if (!leads) return weigh_own_signal(*ranks);
  const int number = signal_to_weigh.exchange(0);
  if (number == 0) return;
  expect_end();
  ranks->announce_end();
  ::sigaction(number, &before_ranks[number], nullptr);
  ::kill(::getpid(), number);
}

// What a process that rank 0 starts sees must not make it a rank.
void forget_launcher() {
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    for (const std::string_view prefix : {"OMPI_", "PMIX_", "PMI_", "ORTE_", "PRTE_"}) {
      if (text.starts_with(prefix)) names.emplace_back(text.substr(0, text.find('=')));
    }
  }
  for (const std::string& name : names) unsetenv(name.c_str());
}

bool is_first_by_environment() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    if (const char* value = std::getenv(name)) return std::strcmp(value, "0") == 0;
  }
  return true;
}

struct Dismissal {
  Collective& ranks;
  ~Dismissal() { static_cast<void>(llm::dismiss_ranks(ranks)); }
};

Status follow_to_the_end(Collective& ranks) {
  try {
    return llm::follow_ranks(ranks);
  } catch (const std::exception& error) {
    return failed(error.what());
  }
}

// What goes wrong is said before the others are waited for.
int run_to_the_end(const std::function<int()>& command) {
  try {
    return command();
  } catch (const std::exception& error) {
    tell(error.what());
    return 1;
  }
}

int follow(Collective& ranks) {
  // What a pipeline is warned of, rank 0 says as well.
  set_log_level(std::max(log_level(), LogLevel::error));
  const std::string name = name_of_rank(ranks.rank(), ranks.places()[ranks.rank()]);
  set_log_sink([name](LogLevel, std::string_view component, std::string_view text) {
    say(name + ": " + std::string(component) + ": " + std::string(text));
  });
  const Status followed = follow_to_the_end(ranks);
  if (followed.ok()) return 0;
  const std::string fault = name + ": " + message_of(followed);
  if (claim_last_word().value_or(true)) tell(fault);
  // The others wait for what this rank no longer gives.
  ranks.fail(fault);
  end_at_once(1, "");
}

}  // namespace

void add_launch(Command command) {
  add_number(command, whole_number("--launch", 1, kMostRanks), launched(),
             "run as so many processes, each with a part of the model, by Open MPI's mpirun")
      .group("Pipeline");
  // What --launch becomes: no group, so that no help shows it.
  add_number(command, whole_number("--launched", 1, kMostRanks), launched_count(), "").group("");
}

uint32_t launched_as() {
  return launched_count();
}

uint32_t asked_to_launch() {
  return launched();
}

int launch_ranks(int argc, char** argv) {
  if (leads) {
    tell(
        "--launch starts processes by mpirun, but a launcher has started this one as a rank "
        "already; leave --launch out, or start it alone");
    return 2;
  }
  std::vector<std::string> words(argv + 1, argv + argc);
  Result<std::vector<std::string>> line = launch_line(launched(), words);
  if (!line.ok()) return report_failure(line.status());
  std::vector<char*> arguments;
  for (std::string& word : *line) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  flush_output();
  if (launched() > 1) start_launch_witness(launched());
  ::execvp(arguments.front(), arguments.data());
  tell(arguments.front() + std::string(" cannot be started: ") + std::strerror(errno));
  return 1;
}

int run_as_rank(const std::function<int()>& command) {
  if (const Status launcher = check_launcher(); !launcher.ok()) {
    if (is_first_by_environment()) tell(message_of(launcher));
    return 2;
  }
  if (!is_started_as_rank()) return command();
  remember_witness();
  weigh_signals_first();
  auto joined = RankSession::join({.on_fault = end_with_fault, .on_beat = pass_signal_on});
  if (!joined.ok()) {
    if (claim_last_word().value_or(is_first_by_environment())) tell(message_of(joined.status()));
    return 1;
  }
  forget_launcher();
  Collective& ranks = (*joined)->ranks();
  far = ranks.carrier() == "MPI";
  if (ranks.rank() > 0) return follow(ranks);
  if (far) let_signals_count();
  leads = true;
  llm::set_ranks_of_program(&ranks);
  const Dismissal when_done{ranks};
  const int status = run_to_the_end(command);
  static_cast<void>(claim_last_word());  // what there was to say has been said
  return status;
}

}  // namespace tenon
