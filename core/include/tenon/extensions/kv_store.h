// KvStore: a tier of K/V in a plugin, an interface of its own beyond the seven: a place below the
// KV cache where blocks lie by their content, in a database, on another machine, wherever its
// author likes. A pipeline names it in [[kv_cache.tiers]] with kind = "plugin".
//
// A key stands for everything that an entry's bytes follow from (model, numerics id, geometry,
// adapter, salt, all tokens up to the block's end), so equal keys mean equal bytes, in every
// process and on any day. What is written under a key that is there already may be dropped.
//
// A store promises
//   - that it gives back what was put under that key, or says that there is nothing;
//   - to answer every request that it took exactly once, in any order;
//   - to touch a request's memory only between `submit` and the answer, and no memory of requests
//     once it is destroyed, answered or not.
// Besides that it may do as it likes: forget what it was given, keep it within limits of its own,
// take its time. The host never trusts what it gets (each value has checksums of the host's inside)
// and waits for no answer longer than seconds. What does not come is computed.
//
// Other than plugins of other interfaces, a store may open files and sockets, use libraries, read
// clocks, and start threads of its own, which end with `destroy`. A lost peer, a full disk or a
// wrong password after `create` is an error in an answer and never the end of the process.
//
// Threads: `submit` and `collect` are called by one thread, the tiers' own, while steps run in
// others: no step waits for them. `usage` is [any]. Creating and destroying is [control], when no
// other call is under way.
#pragma once

#include <tenon/descriptor.h>
#include <tenon/status.h>
#include <tenon/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tenon {

// The name of an entry: 36 bytes that say nothing about their order.
struct KvStoreKey {
  uint8_t content[32] = {};  // SHA-256, docs/formats/kv-files.md
  GroupId group = 0;         // which of the model's KV groups: layers that are kept together
  friend bool operator==(const KvStoreKey&, const KvStoreKey&) = default;
};

// What is asked for. Values are never reordered.
enum class KvStoreVerb : uint8_t {
  has = 0,     // whether `get` is worth asking: ok or not_found. May be wrong either way
  get = 1,     // the value into `room`: ok with its size, not_found, or an error
  put = 2,     // keep `value` under `key`: ok, or why not
  remove = 3,  // forget `key`, which was damaged, say: ok, also where there is nothing
};

// One thing that is asked of a store.
struct KvStoreRequest {
  uint64_t id = 0;  // names its answer; never that of another request without one
  KvStoreVerb verb = KvStoreVerb::has;  // what is asked
  KvStoreKey key;                       // of which entry
  // Of `put`: what to keep, at least 1 byte. Borrowed until the answer.
  std::span<const std::byte> value;
  // Of `get`: where to. A value that is larger is not copied, not even its beginning; its answer is
  // ok and says its size. Borrowed until the answer.
  std::span<std::byte> room;
};

// What a store says to one request.
struct KvStoreAnswer {
  uint64_t id = 0;     // the request's
  uint64_t bytes = 0;  // of `get` that is ok: the size of the value
  // ok; not_found: there is nothing under that key; any other code: a fault of the store, with a
  // message for people. After faults the host lets the store rest for a while.
  Status status;
};
// Room for answers.
struct KvStoreAnswersOut {
  std::span<KvStoreAnswer> answers;  // filled from the beginning on
  uint32_t count = 0;                // how many were filled in
};

// As far as the store knows; all of it is for people.
struct KvStoreUsage {
  uint64_t held_bytes = 0;     // of values
  uint64_t evicted_bytes = 0;  // that went to make room, since it was created
};

// A store, as the host calls it.
class KvStore {
 public:
  // Ends its threads; requests without an answer are given up. [control]
  virtual ~KvStore() = default;

  // Takes all of these requests, or none of them and says why. It may work them off before it
  // returns, or begin and go on in the background.
  virtual Status submit(std::span<const KvStoreRequest> requests) noexcept = 0;
  // Hands over answers that are ready, as many as there is room for. If there are none, it waits
  // for the first up to `wait_ns` nanoseconds (0: not at all) while requests are without an answer;
  // having none then is no error. Errors: the store is of no use any more.
  virtual Status collect(int64_t wait_ns, KvStoreAnswersOut& out) noexcept = 0;
  // What is held. [any]
  virtual KvStoreUsage usage() const noexcept = 0;
};

// The interface's name and revision.
inline constexpr std::string_view kKvStoreInterface = "kv_store/1";
template <>
inline constexpr std::string_view kInterfaceOf<KvStore> = kKvStoreInterface;

}  // namespace tenon
