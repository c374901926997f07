// How fast a prompt's K/V comes out of a folder, next to a plain read of the same files one after
// the other.
//
//   tier_bench FOLDER [--block-bytes=524288] [--blocks=128] [--rounds=7]
//
// FOLDER is on the disk that is measured. Each round reads the files plainly, then by the tier,
// both after the system has forgotten their pages; then both once more, from the system's memory.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/tiers/disk_store.h"
#include "core/tiers/kv_file.h"
#include "core/tiers/tiers.h"

namespace tenon::bench {
namespace {

using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

struct Plan {
  std::string folder;
  uint64_t block_bytes = 512 << 10;  // of the shape of Llama 3.2 1B: 16 tokens in BF16
  uint32_t blocks = 128;
  uint32_t rounds = 7;
};

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "tier_bench: %s\n", why.c_str());
  std::exit(1);
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
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

class Measured {
 public:
  explicit Measured(const Plan& plan)
      : plan_(plan), contents_(contents_of(plan)), buffer_(plan.block_bytes + kKvHeaderBytes) {
    tiers_ = open();
    for (uint32_t i = 0; i < plan_.blocks; ++i) {
      KvBlob blob(plan_.block_bytes);
      for (size_t at = 0; at < blob.size(); ++at) blob[at] = static_cast<std::byte>(at * i >> 7);
      if (!tiers_->put({contents_[i], 0}, std::move(blob))) give_up("no room for the blocks");
      paths_.push_back(plan_.folder + "/" + kv_file_name({contents_[i], 0}));
    }
    tiers_->settle();
  }

  void forget_pages() const {
    for (const std::string& path : paths_) {
      const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
      if (file < 0 || ::fsync(file) != 0) give_up("cannot read " + path);
      ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
      ::close(file);
    }
  }

  double plain_s() {
    const auto start = Clock::now();
    for (const std::string& path : paths_) {
      const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
      size_t have = 0;
      for (ssize_t got = 1; got > 0 && have < buffer_.size(); have += static_cast<size_t>(got)) {
        got = ::read(file, buffer_.data() + have, buffer_.size() - have);
        if (got < 0) give_up("cannot read " + path);
      }
      ::close(file);
      if (have != buffer_.size()) give_up(path + " is cut");
    }
    return seconds_since(start);
  }

  double tier_s() {
    const auto start = Clock::now();
    const uint64_t id = tiers_->seek(0, contents_);
    std::unique_ptr<FoundKv> found;
    while ((found = tiers_->take(id)) == nullptr) {
      (void)tiers_->wait_for_any(std::chrono::seconds(1));
    }
    const double took = seconds_since(start);
    if (found->end != plan_.blocks) give_up("not all of the blocks were found");
    return took;
  }

 private:
  std::unique_ptr<Tiers> open() const {
    auto store = DiskStore::open(plan_.folder, uint64_t{1} << 40, "bench", make_file_layer());
    if (!store.ok()) give_up(message_of(store.status()));
    TierWorld world;
    world.text = "bench";
    world.groups = {{0, plan_.block_bytes, false}};
    std::vector<std::unique_ptr<TierStore>> stores;
    stores.push_back(*std::move(store));
    return std::make_unique<Tiers>(std::move(world), std::move(stores),
                                   2 * plan_.block_bytes * plan_.blocks);
  }

  const Plan& plan_;
  const std::vector<ContentDigest> contents_;
  std::vector<std::byte> buffer_;
  std::vector<std::string> paths_;
  std::unique_ptr<Tiers> tiers_;
};

void compare(const Plan& plan) {
  Measured measured(plan);
  const double bytes = static_cast<double>(plan.block_bytes) * plan.blocks;
  for (const bool from_disk : {true, false}) {
    std::vector<double> plain, tier, ratios;
    for (uint32_t round = 0; round <= plan.rounds; ++round) {
      if (from_disk) measured.forget_pages();
      const double alone = measured.plain_s();
      if (from_disk) measured.forget_pages();
      const double by_tier = measured.tier_s();
      if (round == 0) continue;  // it warms up
      plain.push_back(alone);
      tier.push_back(by_tier);
      ratios.push_back(alone / by_tier);
    }
    const auto median = [](std::vector<double> values) {
      std::ranges::sort(values);
      return values[values.size() / 2];
    };
    const auto [least, most] = std::ranges::minmax(ratios);
    std::printf("%-11s plain %6.2f GB/s, tier %6.2f GB/s: %.2f of it (%.2f to %.2f, %u pairs)\n",
                from_disk ? "from disk" : "from memory", bytes / median(plain) / 1e9,
                bytes / median(tier) / 1e9, median(ratios), least, most, plan.rounds);
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
    if (!word.starts_with("--")) plan.folder = word;
    if (const char* bytes = number("block-bytes")) {
      plan.block_bytes = static_cast<uint64_t>(std::max(1, std::atoi(bytes)));
    }
    if (const char* blocks = number("blocks")) {
      plan.blocks = static_cast<uint32_t>(std::max(1, std::atoi(blocks)));
    }
    if (const char* rounds = number("rounds")) {
      plan.rounds = static_cast<uint32_t>(std::max(1, std::atoi(rounds)));
    }
  }
  if (plan.folder.empty()) tenon::bench::give_up("say a FOLDER on the disk that is measured");
  plan.folder += "/tenon-tier-bench";
  tenon::bench::compare(plan);
  std::filesystem::remove_all(plan.folder);
}
