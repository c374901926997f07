// K/V from one process to another: what a fetch brings a second, next to what carries its bytes
// alone. The other process is a fork; each way takes its turn in every round.
//
//   transfer_bench [--block-bytes=524288] [--blocks=256] [--rounds=9]
//
// Plain ways send the same number of bytes in pieces of a block, as large as one call takes, and
// leave them in memory that was written before: a socket of TCP (loopback), a unix socket, and a
// copy into memory that both share and out of it again.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/threads/pause.h"
#include "core/transfer/transfer.h"

namespace tenon::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Plan {
  uint64_t block_bytes = 512 << 10;  // of the shape of Llama 3.2 1B: 16 tokens in BF16
  uint32_t blocks = 256;
  uint32_t rounds = 9;
  uint64_t bytes() const { return block_bytes * blocks; }
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "transfer_bench: %s\n", why.c_str());
  std::_Exit(1);
}

// What both processes map.
constexpr uint32_t kSlots = 4;
struct Shared {
  alignas(64) std::atomic<uint32_t> filled{0};
  alignas(64) std::atomic<uint32_t> emptied{0};
};

class SharedSlots {
 public:
  explicit SharedSlots(const Plan& plan) : plan_(plan) {
    const uint64_t bytes = sizeof(Shared) + kSlots * plan.block_bytes;
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) give_up("no shared memory");
    shared_ = new (data) Shared();
  }
  void give(const std::vector<std::byte>& from) {
    for (uint32_t i = 0; i < plan_.blocks; ++i) {
      while (given_ - shared_->emptied.load(std::memory_order_acquire) >= kSlots) wait();
      std::memcpy(slot(given_), from.data() + i * plan_.block_bytes, plan_.block_bytes);
      shared_->filled.store(++given_, std::memory_order_release);
    }
  }
  void take(std::vector<std::byte>& to) {
    for (uint32_t i = 0; i < plan_.blocks; ++i) {
      while (shared_->filled.load(std::memory_order_acquire) == taken_) wait();
      std::memcpy(to.data() + i * plan_.block_bytes, slot(taken_), plan_.block_bytes);
      shared_->emptied.store(++taken_, std::memory_order_release);
    }
  }

 private:
  static void wait() {
    pause_core();
    ::sched_yield();
  }
  std::byte* slot(uint32_t turn) const {
    return reinterpret_cast<std::byte*>(shared_ + 1) + (turn % kSlots) * plan_.block_bytes;
  }
  const Plan& plan_;
  Shared* shared_;
  uint32_t given_ = 0, taken_ = 0;
};

void send_all(int socket, const std::vector<std::byte>& from, uint64_t piece) {
  for (size_t at = 0; at < from.size();) {
    const ssize_t sent = ::send(socket, from.data() + at, std::min(piece, from.size() - at), 0);
    if (sent <= 0) give_up("a plain socket broke");
    at += static_cast<size_t>(sent);
  }
}
void receive_all(int socket, std::vector<std::byte>& to, uint64_t piece) {
  for (size_t at = 0; at < to.size();) {
    const ssize_t got = ::recv(socket, to.data() + at, std::min(piece, to.size() - at), 0);
    if (got <= 0) give_up("a plain socket broke");
    at += static_cast<size_t>(got);
  }
}

// Both ends of a connection over loopback.
std::pair<int, int> tcp_pair() {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(name);
  auto* const address = reinterpret_cast<sockaddr*>(&name);
  if (::bind(listener, address, size) != 0 || ::listen(listener, 1) != 0 ||
      ::getsockname(listener, address, &size) != 0) {
    give_up("no TCP");
  }
  const int one = ::socket(AF_INET, SOCK_STREAM, 0);
  if (::connect(one, address, size) != 0) give_up("no TCP");
  const int other = ::accept(listener, nullptr, nullptr);
  ::close(listener);
  return {one, other};
}
std::pair<int, int> unix_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) give_up("no unix sockets");
  return {ends[0], ends[1]};
}

TierWorld world_of(const Plan& plan) {
  TierWorld world;
  world.text = "bench\n";
  world.groups = {{0, plan.block_bytes, false}};
  return world;
}

std::vector<ContentDigest> contents_of(const Plan& plan) {
  std::vector<ContentDigest> made = {root_digest("bench", 0, "")};
  for (uint32_t i = 0; i < plan.blocks; ++i) {
    const TokenId token = static_cast<TokenId>(i);
    made.push_back(next_digest(made.back(), {&token, 1}));
  }
  made.erase(made.begin());
  return made;
}

std::unique_ptr<KvTransfer> open_worker(const Plan& plan, const std::string& address) {
  TransferOptions options;
  options.address = address;
  options.memory_bytes = options.budget_bytes = plan.bytes() * 2;
  auto made = KvTransfer::open(options, world_of(plan), make_socket_transport());
  if (!made.ok()) give_up(message_of(made.status()));
  return *std::move(made);
}

// A worker that has the K/V, in the other process; every round fetches the same.
struct Worker {
  std::unique_ptr<KvTransfer> transfer;
  std::vector<std::shared_ptr<KvExport>> held;
};

constexpr uint64_t kFirstTransfer = 100;

void hold_blocks(const Plan& plan, const std::vector<std::byte>& from, Worker& worker) {
  const auto contents = contents_of(plan);
  auto out = worker.transfer->export_as(kFirstTransfer);
  for (uint32_t i = 0; i < plan.blocks; ++i) {
    const auto first = from.begin() + static_cast<std::ptrdiff_t>(i * plan.block_bytes);
    if (!out->put({contents[i], 0},
                  KvBlob(first, first + static_cast<std::ptrdiff_t>(plan.block_bytes)))) {
      give_up("no room for the blocks");
    }
  }
  out->complete();
  worker.held.push_back(std::move(out));
}

double fetch_s(const Plan& plan, KvTransfer& own, const KvImport& hold) {
  const auto contents = contents_of(plan);
  const auto start = Clock::now();
  const uint64_t id = own.incoming().fetch(hold.place(), 0, contents);
  std::unique_ptr<FoundKv> found;
  while ((found = own.incoming().take(id)) == nullptr) {
    (void)own.incoming().wait_for_any(std::chrono::seconds(1));
  }
  const double took = seconds_since(start);
  if (found->end != plan.blocks) give_up("not all of the blocks came");
  return took;
}

// Tells the other process which way comes next: 'q' ends it.
struct Orders {
  int own, other;
  void tell(char way) const {
    if (::write(own, &way, 1) != 1) give_up("the other process is gone");
  }
  char hear() const {
    char way = 'q';
    return ::read(other, &way, 1) == 1 ? way : 'q';
  }
};

struct Ways {
  Plan plan;
  Orders orders;
  std::pair<int, int> tcp, local;
  SharedSlots slots;
};

[[noreturn]] void serve(Ways& ways, const std::map<char, std::string>& addresses) {
  std::vector<std::byte> from(ways.plan.bytes());
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 131 >> 5);
  std::vector<Worker> workers;
  for (const auto& [way, address] : addresses) {
    workers.push_back({open_worker(ways.plan, address), {}});
    hold_blocks(ways.plan, from, workers.back());
  }
  const char ready = 'r';
  if (::write(ways.orders.other, &ready, 1) != 1) std::_Exit(1);
  for (char way = ways.orders.hear(); way != 'q'; way = ways.orders.hear()) {
    if (way == 't') send_all(ways.tcp.second, from, ways.plan.block_bytes);
    if (way == 'u') send_all(ways.local.second, from, ways.plan.block_bytes);
    if (way == 's') ways.slots.give(from);
  }
  std::_Exit(0);
}

void compare(const Plan& plan) {
  const Orders orders = [] {
    const auto [one, other] = unix_pair();
    return Orders{one, other};
  }();
  Ways ways{plan, orders, tcp_pair(), unix_pair(), SharedSlots(plan)};
  const std::string folder = "/tmp/tenon-transfer-" + std::to_string(::getpid());
  const std::map<char, std::string> addresses = {
      {'T', "127.0.0.1:" + std::to_string(20000 + ::getpid() % 20000)},
      {'U', "unix:" + folder + ".sock"},
      {'S', "memory:" + folder + ".mem"}};
  const pid_t child = ::fork();
  if (child == 0) serve(ways, addresses);
  char ready = 0;
  if (::read(orders.own, &ready, 1) != 1) give_up("the other process did not begin");
  const auto own = open_worker(plan, "127.0.0.1:0");
  std::map<char, std::shared_ptr<KvImport>> holds;
  for (const auto& [way, address] : addresses) {
    holds[way] = own->import_from({address, kFirstTransfer, false});
  }
  std::vector<std::byte> to(plan.bytes());
  std::map<char, std::vector<double>> times;
  for (uint32_t round = 0; round <= plan.rounds; ++round) {
    for (const char way : {'t', 'T', 'u', 'U', 's', 'S'}) {
      double took = 0;
      if (addresses.contains(way)) {
        took = fetch_s(plan, *own, *holds[way]);
      } else {
        const auto start = Clock::now();
        orders.tell(way);
        if (way == 't') receive_all(ways.tcp.first, to, plan.block_bytes);
        if (way == 'u') receive_all(ways.local.first, to, plan.block_bytes);
        if (way == 's') ways.slots.take(to);
        took = seconds_since(start);
      }
      if (round > 0) times[way].push_back(took);  // the first one warms up
    }
  }
  holds.clear();
  orders.tell('q');
  ::waitpid(child, nullptr, 0);
  for (const char* ending : {".sock", ".mem"}) ::unlink((folder + ending).c_str());
  for (const auto& [name, plain, fetched] :
       {std::tuple("TCP", 't', 'T'), std::tuple("unix socket", 'u', 'U'),
        std::tuple("shared memory", 's', 'S')}) {
    std::vector<double> ratios;
    for (uint32_t i = 0; i < plan.rounds; ++i)
      ratios.push_back(times[plain][i] / times[fetched][i]);
    const auto median = [](std::vector<double> values) {
      std::ranges::sort(values);
      return values[values.size() / 2];
    };
    const double bytes = static_cast<double>(plan.bytes());
    const auto [least, most] = std::ranges::minmax(ratios);
    std::printf("%-14s plain %6.2f GB/s, K/V %6.2f GB/s: %.2f of it (%.2f to %.2f, %u pairs)\n",
                name, bytes / median(times[plain]) / 1e9, bytes / median(times[fetched]) / 1e9,
                median(ratios), least, most, plan.rounds);
  }
}

}  // namespace
}  // namespace tenon::bench

int main(int argc, char** argv) {
  tenon::bench::Plan plan;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto number = [&](const char* name) -> const char* {
      const std::string start = std::string("--") + name + "=";
      return word.starts_with(start) ? argv[i] + start.size() : nullptr;
    };
    if (const char* bytes = number("block-bytes")) {
      plan.block_bytes = static_cast<uint64_t>(std::max(64, std::atoi(bytes) / 64 * 64));
    }
    if (const char* blocks = number("blocks")) {
      plan.blocks = static_cast<uint32_t>(std::max(1, std::atoi(blocks)));
    }
    if (const char* rounds = number("rounds")) {
      plan.rounds = static_cast<uint32_t>(std::max(1, std::atoi(rounds)));
    }
  }
  tenon::bench::compare(plan);
}
