// Any frames in any order between two workers, as scripts: checksums are always right, so that what
// lies behind them is reached. The first byte says who is tried.
//
//   0  a decode worker, to which a prefill worker says things: [kind, id, block, group, offset,
//   bytes] 1  a prefill worker, which is asked things while it computes: [what, transfer, block,
//   count]
//
// Bytes of K and V follow from their place, so wherever they end up, they must be those of it.
#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "core/base/log.h"
#include "core/transfer/export_server.h"
#include "core/transfer/imports.h"
#include "tests/fuzz/target.h"

namespace {

using namespace tenon;
using Script = std::span<const uint8_t>;

constexpr uint32_t kBlocks = 6;
constexpr size_t kMostFrames = 64;

void expect(bool holds, int line = __builtin_LINE()) {
  if (holds) return;
  std::fprintf(stderr, "line %d does not hold\n", line);
  std::abort();
}

const TierWorld& world() {
  static const TierWorld made = [] {
    TierWorld world;
    world.text = "world\n";
    world.groups = {{0, 48, false}, {1, 16, false}, {2, 32, true}};
    return world;
  }();
  return made;
}

const std::vector<ContentDigest>& contents() {
  static const std::vector<ContentDigest> made = [] {
    std::vector<ContentDigest> all(kBlocks);
    for (uint32_t i = 0; i < kBlocks; ++i) all[i].fill(static_cast<uint8_t>(i + 1));
    return all;
  }();
  return made;
}

std::byte byte_at(GroupId group, uint32_t block, uint64_t place) {
  return static_cast<std::byte>(group * 131 + block * 31 + place * 7 + 1);
}
KvBlob bytes_at(GroupId group, uint32_t block, uint64_t offset, uint64_t count) {
  KvBlob bytes(count);
  for (uint64_t i = 0; i < count; ++i) bytes[i] = byte_at(group, block, offset + i);
  return bytes;
}

// Gives what it was made with, then waits to be shut down; keeps what is written.
class ScriptStream final : public KvStream {
 public:
  explicit ScriptStream(bool waits) : waits_(waits) {}
  void add(const Frame& frame) {
    const FrameHeader header = frame_header(frame, frame.payload);
    said_.insert(said_.end(), header.begin(), header.end());
    said_.insert(said_.end(), frame.payload.begin(), frame.payload.end());
  }
  Status read(std::span<std::byte> out) override {
    std::unique_lock lock(mutex_);
    if (out.size() > said_.size() - at_) {
      changed_.wait(lock, [this] { return shut_ || !waits_; });
      return failed("it ends");
    }
    std::copy_n(said_.begin() + static_cast<std::ptrdiff_t>(at_), out.size(), out.begin());
    at_ += out.size();
    return {};
  }
  Status write(std::span<const std::byte> first, std::span<const std::byte> second) override {
    const std::lock_guard lock(mutex_);
    if (shut_) return failed("shut down");
    heard_.insert(heard_.end(), first.begin(), first.end());
    heard_.insert(heard_.end(), second.begin(), second.end());
    return {};
  }
  void shut_down() override {
    const std::lock_guard lock(mutex_);
    shut_ = true;
    changed_.notify_all();
  }
  std::vector<std::byte> heard() {
    const std::lock_guard lock(mutex_);
    return heard_;
  }

 private:
  const bool waits_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::byte> said_, heard_;
  size_t at_ = 0;
  bool shut_ = false;
};

class OneStream final : public KvTransport {
 public:
  explicit OneStream(std::unique_ptr<KvStream> stream) : stream_(std::move(stream)) {}
  Result<std::unique_ptr<KvStream>> connect(const std::string&, int64_t) override {
    if (stream_ == nullptr) return failed("nobody");
    return std::move(stream_);
  }
  Result<std::unique_ptr<KvListener>> listen(const std::string&, int64_t) override {
    return failed("nowhere");
  }

 private:
  std::unique_ptr<KvStream> stream_;
};

Frame said_frame(Script line) {
  Frame frame;
  frame.kind = static_cast<FrameKind>(line[0] % 13);
  frame.id = line[1] < 200 ? 1 : line[1];
  frame.block = line[2] < 250 ? line[2] % (kBlocks + 1) : UINT32_MAX;
  frame.group = line[3] % 4;
  frame.offset = line[4] < 250 ? line[4] % 64 : UINT64_MAX - (line[4] - 250u);
  uint64_t size = line[5] % 64;
  const bool is_whole = frame.kind == FrameKind::block && line[5] >= 128;
  if (is_whole && frame.group < 3) size = world().groups[frame.group].bytes;
  const bool has_offset = frame.kind == FrameKind::part;
  const bool has_bytes = has_offset || frame.kind == FrameKind::block || line[5] >= 250;
  if (!has_bytes) return frame;  // else it ends the connection
  frame.payload = bytes_at(frame.group, frame.block, has_offset ? frame.offset : 0, size);
  return frame;
}

void try_decode_worker(Script script) {
  auto stream = std::make_unique<ScriptStream>(false);
  Frame welcome;
  welcome.kind = FrameKind::welcome;
  stream->add(welcome);
  for (size_t frames = 0; script.size() >= 6 && frames < kMostFrames; ++frames) {
    stream->add(said_frame(script));
    script = script.subspan(6);
  }
  Imports imports(world(), std::make_shared<OneStream>(std::move(stream)), 1 << 16,
                  std::chrono::hours(1));
  const uint32_t first = 1;
  const uint64_t id = imports.fetch({"p", 7, false}, first, contents());
  std::unique_ptr<FoundKv> found;
  while ((found = imports.take(id)) == nullptr) {
    (void)imports.wait_for_any(std::chrono::seconds(1));
  }
  expect(found->first == first && found->end <= kBlocks);
  expect(found->blocks.size() == found->end - first);
  for (uint32_t block = 0; block < found->blocks.size(); ++block) {
    for (GroupId group : {0u, 1u}) {
      const uint64_t bytes = world().groups[group].bytes;
      expect(found->blocks[block][group] == bytes_at(group, block + first, 0, bytes));
    }
  }
  for (const auto& [end, blobs] : found->states) {
    expect(blobs[2] == bytes_at(2, end - 1, 0, world().groups[2].bytes));
  }
  expect(imports.totals().under_way_bytes == 0);
}

// What a prefill worker sent: of each block every byte once and in its order.
void check_sent(const std::vector<std::byte>& bytes) {
  std::map<std::tuple<uint64_t, uint32_t, GroupId>, uint64_t> sent;
  for (std::span<const std::byte> rest = bytes; rest.size() >= kFrameHeaderBytes;) {
    const auto head = read_frame_head(rest.first<kFrameHeaderBytes>(), 4096);
    expect(head.ok() && rest.size() >= kFrameHeaderBytes + head->bytes);
    const auto payload = rest.subspan(kFrameHeaderBytes, head->bytes);
    rest = rest.subspan(kFrameHeaderBytes + head->bytes);
    if (head->kind != FrameKind::block && head->kind != FrameKind::part) continue;
    uint64_t& reached = sent[{head->id, head->block, head->group}];
    expect(head->offset == reached && !payload.empty());
    for (size_t i = 0; i < payload.size(); ++i) {
      expect(payload[i] == byte_at(head->group, head->block, reached + i));
    }
    reached += payload.size();
    const uint64_t whole = world().groups.at(head->group).bytes;
    expect(reached <= whole && (head->kind == FrameKind::part || payload.size() == whole));
  }
}

// What the one that fetches says, where a line is of that kind.
void add_question(Script line, uint64_t number, ScriptStream& stream) {
  Frame frame;
  const TransferId transfer = line[1] % 3;
  switch (line[0] % 12) {
    case 0: {
      frame.kind = FrameKind::fetch;
      frame.id = number;
      const uint32_t first = line[2] % kBlocks;
      const uint32_t count = std::min<uint32_t>(line[3] % (kBlocks + 1), kBlocks - first);
      const auto from = contents().begin() + first;
      frame.payload = fetch_payload({transfer, line[2] % 2 == 1, first, {from, from + count}});
      break;
    }
    case 1:
      frame.kind = FrameKind::renew;
      frame.payload = ids_payload({&transfer, 1});
      break;
    case 2:
      frame.kind = FrameKind::release;
      frame.id = transfer;
      break;
    case 3:
      frame.kind = FrameKind::cancel;
      frame.id = line[2];
      break;
    default:
      return;
  }
  stream.add(frame);
}

// What is computed meanwhile. Of a block that is being computed the parts are kept here.
using Parts = std::map<std::pair<TransferId, uint32_t>, std::vector<std::shared_ptr<KvPart>>>;
void compute(Script line, Exports& exports, Parts& parts) {
  const TransferId transfer = line[1] % 3;
  const uint32_t block = line[2] % kBlocks;
  const auto key = [&](GroupId group) { return KvKey{contents()[block], group}; };
  const auto bytes = [](GroupId group) { return world().groups[group].bytes; };
  switch (line[0] % 12) {
    case 4:
      return exports.open(transfer);
    case 5:
      for (GroupId group : {0u, 1u}) {
        (void)exports.put(transfer, key(group), bytes_at(group, block, 0, bytes(group)));
      }
      return;
    case 6:
    case 7: {
      std::vector<std::shared_ptr<KvPart>>& of = parts[{transfer, block}];
      of.clear();
      for (GroupId group : {0u, 1u}) {
        of.push_back(exports.begin(transfer, key(group), bytes(group)));
        KvPart* const part = of.back().get();
        if (part == nullptr) continue;
        const uint64_t until = std::max<uint64_t>(part->ready, bytes(group) * (line[3] % 4) / 4);
        for (uint64_t at = part->ready; at < until; ++at) {
          part->bytes[at] = byte_at(group, block, at);
        }
        part->ready = until;
      }
      return exports.note_change();
    }
    case 8:
    case 9:
      for (GroupId group : {0u, 1u}) {
        const auto part = exports.begin(transfer, key(group), bytes(group));
        if (part == nullptr) continue;
        for (uint64_t at = part->ready; at < bytes(group); ++at) {
          part->bytes[at] = byte_at(group, block, at);
        }
        part->ready = bytes(group);
        (void)exports.finish(transfer, key(group));  // false: it was released meanwhile
      }
      return;
    case 10:
      (void)exports.put(transfer, key(2), bytes_at(2, block, 0, bytes(2)));
      return;
    case 11:
      return line[3] % 2 == 0 ? exports.complete(transfer) : exports.end(transfer);
    default:
      return;
  }
}

void try_prefill_worker(Script script) {
  const auto exports = std::make_shared<Exports>(1 << 10, std::chrono::hours(1));
  auto owned = std::make_unique<ScriptStream>(true);
  ScriptStream& stream = *owned;
  Frame hello;
  hello.payload = text_payload(world().text);
  hello.block = script.empty() ? 0 : script[0];
  stream.add(hello);
  std::vector<Script> lines;
  for (; script.size() >= 4 && lines.size() < kMostFrames; script = script.subspan(4)) {
    lines.push_back(script.first(4));
    add_question(lines.back(), lines.size(), stream);
  }
  Parts parts;
  {
    ExportSession session(std::move(owned), exports, world(), 1);
    for (const Script line : lines) compute(line, *exports, parts);
    std::this_thread::yield();
    exports->expire(Exports::Time::max());
    check_sent(stream.heard());
  }
  for (const TransferId transfer : {0u, 1u, 2u}) exports->end(transfer);
  expect(exports->totals().held_bytes == 0);
}

}  // namespace

TENON_FUZZ_TARGET(kv_transfer, const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  set_log_sink([](LogLevel, std::string_view, std::string_view) {});  // every link ends in a fault
  const Script script(data + 1, size - 1);
  data[0] % 2 == 0 ? try_decode_worker(script) : try_prefill_worker(script);
  return 0;
}
