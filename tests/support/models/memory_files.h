// A FileLayer in memory whose operations can be made to fail, and which can run full. Its files can
// be cut or overwritten, as a power cut leaves what was never brought to the disk.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/tiers/file_layer.h"

namespace tenon {

// The disk behind it, which several layers (processes) share and which outlives them.
struct MemoryDisk {
  struct File {
    std::vector<std::byte> bytes;
    int64_t used_ns = 0;
  };
  std::map<std::string, File> files;
  std::set<std::string> folders;
  int64_t now_ns = 1'000'000'000;
  uint64_t room_bytes = UINT64_MAX;  // of all files together
  std::vector<std::string> begun;    // paths that will be read

  uint64_t held_bytes() const {
    uint64_t bytes = 0;
    for (const auto& [path, file] : files) bytes += file.bytes.size();
    return bytes;
  }
};

class MemoryFiles final : public FileLayer {
 public:
  // `fault(operation)` is asked before each one that changes the disk: true lets it fail, a write
  // after a part of it. May be empty.
  using Fault = std::function<bool(const std::string& operation)>;
  explicit MemoryFiles(MemoryDisk& disk, Fault fault = {})
      : disk_(disk), fault_(std::move(fault)) {}

  Status make_folder(const std::string& path) override {
    if (fails("make_folder")) return failed("injected: no folder");
    disk_.folders.insert(path);
    return {};
  }
  bool exists(const std::string& path) override { return disk_.files.contains(path); }
  Result<KvBlob> read(const std::string& path, uint64_t limit_bytes) override {
    const auto found = disk_.files.find(path);
    if (found == disk_.files.end()) return not_found("no file");
    if (fails("read")) return failed("injected: read");
    const std::vector<std::byte>& bytes = found->second.bytes;
    const auto count = static_cast<int64_t>(std::min<uint64_t>(bytes.size(), limit_bytes));
    return KvBlob(bytes.begin(), bytes.begin() + count);
  }
  void will_read(const std::string& path) override { disk_.begun.push_back(path); }
  Status write(const std::string& path,
               std::span<const std::span<const std::byte>> parts) override {
    if (!disk_.folders.contains(path.substr(0, path.rfind('/')))) return not_found("no folder");
    std::vector<std::byte> bytes;
    for (const auto part : parts) bytes.insert(bytes.end(), part.begin(), part.end());
    const bool full = disk_.held_bytes() + bytes.size() > disk_.room_bytes;
    const bool cut = fails("write") || full;
    if (cut) bytes.resize(bytes.size() / 2);
    if (!full || disk_.held_bytes() + bytes.size() <= disk_.room_bytes) {
      disk_.files[path] = {std::move(bytes), ++disk_.now_ns};
    }
    return cut ? failed("injected: the disk is full") : Status();
  }
  Status rename(const std::string& from, const std::string& to) override {
    if (fails("rename")) return failed("injected: rename");
    auto moved = disk_.files.extract(from);
    if (moved.empty()) return not_found("no file");
    disk_.files.erase(to);
    moved.key() = to;
    disk_.files.insert(std::move(moved));
    return {};
  }
  void remove(const std::string& path) override {
    if (!fails("remove")) disk_.files.erase(path);
  }
  void touch(const std::string& path) override {
    const auto found = disk_.files.find(path);
    if (found != disk_.files.end()) found->second.used_ns = ++disk_.now_ns;
  }
  std::vector<FileEntry> list(const std::string& path) override {
    std::vector<FileEntry> entries;
    for (const auto& [name, file] : disk_.files) {
      const std::string below = name.starts_with(path + "/") ? name.substr(path.size() + 1) : "";
      if (below.empty()) continue;
      entries.push_back({below, file.bytes.size(), file.used_ns});
    }
    return entries;
  }
  int64_t now_ns() override { return ++disk_.now_ns; }

 private:
  bool fails(const std::string& operation) { return fault_ && fault_(operation); }

  MemoryDisk& disk_;
  Fault fault_;
};

}  // namespace tenon
