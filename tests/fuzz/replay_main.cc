// Runs a fuzz target without a fuzzing engine: every seed of a corpus folder as it is, cut short,
// and with seeded mutations. Usage: <program> <target> <corpus folder> <mutations a seed>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string_view>
#include <vector>

#include "tests/fuzz/target.h"

namespace {

using Bytes = std::vector<uint8_t>;
using tenon::fuzz::Target;

std::map<std::string_view, Target>& targets() {
  static std::map<std::string_view, Target> known;
  return known;
}

Bytes read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

Bytes mutate(Bytes bytes, std::mt19937& random) {
  const uint32_t edits = 1 + random() % 4;
  for (uint32_t i = 0; i < edits && !bytes.empty(); ++i) {
    const size_t at = random() % bytes.size();
    switch (random() % 5) {
      case 0:
        bytes[at] ^= static_cast<uint8_t>(1u << (random() % 8));
        break;
      case 1:
        bytes[at] = static_cast<uint8_t>(random());
        break;
      case 2:
        bytes.erase(bytes.begin() + at);
        break;
      case 3:
        bytes.insert(bytes.begin() + at, static_cast<uint8_t>(random()));
        break;
      default:
        bytes.resize(at);
        break;
    }
  }
  return bytes;
}

}  // namespace

tenon::fuzz::Known::Known(const char* name, Target target) {
  targets().emplace(name, target);
}

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s <target> <corpus folder> <mutations a seed>\n", argv[0]);
    return 2;
  }
  const auto found = targets().find(argv[1]);
  if (found == targets().end()) {
    std::fprintf(stderr, "there is no target %s\n", argv[1]);
    return 2;
  }
  const auto run = [&](const Bytes& input) { found->second(input.data(), input.size()); };
  std::vector<std::filesystem::path> seeds;
  for (const auto& entry : std::filesystem::directory_iterator(argv[2])) {
    seeds.push_back(entry.path());
  }
  std::sort(seeds.begin(), seeds.end());
  if (seeds.empty()) {
    std::fprintf(stderr, "%s has no seeds\n", argv[2]);
    return 1;
  }
  const int mutations = std::atoi(argv[3]);
  size_t runs = 0;
  for (const auto& path : seeds) {
    const Bytes seed = read_file(path);
    run(seed);
    std::mt19937 random(20240601);
    for (int i = 0; i < mutations; ++i) run(mutate(seed, random));
    runs += 1 + static_cast<size_t>(mutations);
  }
  std::printf("%zu inputs from %zu seeds\n", runs, seeds.size());
  return 0;
}
