// KV managers that break one promise each.
#define SOUND_PLUGIN "sound_kv_cache.h"
#include <map>
#include <vector>

#include "tests/bad_plugins/promises/wrong.h"

namespace {

// The sound one, whose class is final, with the same options.
class Base : public sdk::PrefixManager {
 public:
  Base(const HostServices& host, const PipelineFacts& facts, const Options& options)
      : PrefixManager("test.wrong", host, facts, options.eviction) {}
};

struct LosesBlocks final : Base {
  using Base::Base;
  Status release(SeqId seq, ReleaseHow how) noexcept override {
    return how == ReleaseHow::end ? Status() : Base::release(seq, how);
  }
};
struct GrantsAnyway final : Base {
  using Base::Base;
  Status grow(const KvRequest& request, KvGrant& out) noexcept override {
    Status status = Base::grow(request, out);
    if (status.ok()) return status;
    out = {0, request.at_least, 0};
    return {};
  }
};
struct ForgetsSalts final : Base {
  using Base::Base;
  Status begin(const KvSequence& sequence) noexcept override {
    KvSequence changed = sequence;
    changed.key.salt = 0;
    return Base::begin(changed);
  }
};
struct KeepsMoves final : Base {
  using Base::Base;
  Status take_moves(KvMovesOut& out) noexcept override {
    Status status = Base::take_moves(out);
    out.count = 0;
    return status;
  }
};
struct CountsWrong final : Base {
  using Base::Base;
  Status usage(GroupId group, KvUsage& out) const noexcept override {
    Status status = Base::usage(group, out);
    if (out.reserved_tokens > 0) ++out.free_tokens;
    return status;
  }
};
struct IsNeverSound final : Base {
  using Base::Base;
  Status check() const noexcept override {
    return Status::error(StatusCode::internal, "block 3 has two owners");
  }
};
// A released block is handed out again at once, whoever still reads it.
struct HandsOutTooEarly final : Base {
  using Base::Base;
  Status step_begin(uint64_t step_id) noexcept override {
    Status status = Base::step_begin(step_id);
    return status.ok() ? Base::step_done(step_id) : std::move(status);
  }
  Status release(SeqId seq, ReleaseHow how) noexcept override {
    Status status = Base::release(seq, how);
    return status.ok() ? Base::step_done(~uint64_t{0} >> 1) : std::move(status);
  }
};
struct SharesItsTable final : Base {
  using Base::Base;
  Status table(SeqId seq, GroupId group, KvTableView& out) noexcept override {
    Status status = Base::table(seq, group, out);
    copy_.assign(out.blocks.begin(), out.blocks.end());
    if (copy_.size() > 1) copy_[0] = copy_[1];
    out.blocks = copy_;
    return status;
  }
  std::vector<BlockId> copy_;
};
struct PromisesMore final : Base {
  using Base::Base;
  Status match(SeqId seq, std::span<const TokenId> tokens, uint32_t wanted,
               KvMatch& out) noexcept override {
    Status status = Base::match(seq, tokens, wanted, out);
    if (out.ready > 0) ++out.ready;
    return status;
  }
};
struct FailsForNoReason final : Base {
  using Base::Base;
  Status grow(const KvRequest& request, KvGrant& out) noexcept override {
    if (++asked_ % 7 == 0) return Status::error(StatusCode::failed, "not now");
    return Base::grow(request, out);
  }
  uint32_t asked_ = 0;
};

struct CountsNothingUsed final : Base {
  using Base::Base;
  Status usage(GroupId group, KvUsage& out) const noexcept override {
    Status status = Base::usage(group, out);
    out.used_tokens = 0;
    return status;
  }
};

struct RemembersEveryone final : Base {
  using Base::Base;
  Status begin(const KvSequence& sequence) noexcept override {
    limits_[sequence.seq] = sequence.limit_tokens;
    return Base::begin(sequence);
  }
  std::map<SeqId, uint32_t> limits_;
};

template <typename Class>
constexpr PluginDescriptor made(std::string_view id) {
  return wrong<KVCacheManager, Class, Options>(id);
}
constexpr PluginDescriptor kWrong[] = {
    made<LosesBlocks>("test.loses_blocks"),
    made<GrantsAnyway>("test.grants_anyway"),
    made<ForgetsSalts>("test.forgets_salts"),
    made<KeepsMoves>("test.keeps_moves"),
    made<CountsWrong>("test.counts_wrong"),
    made<IsNeverSound>("test.is_never_sound"),
    made<HandsOutTooEarly>("test.hands_out_too_early"),
    made<SharesItsTable>("test.shares_its_table"),
    made<PromisesMore>("test.promises_more"),
    made<FailsForNoReason>("test.fails_for_no_reason"),
    made<CountsNothingUsed>("test.counts_nothing_used"),
    made<RemembersEveryone>("test.remembers_everyone"),
};

}  // namespace

TENON_PLUGIN_LIBRARY(&kPlugin, &kWrong[0], &kWrong[1], &kWrong[2], &kWrong[3], &kWrong[4],
                     &kWrong[5], &kWrong[6], &kWrong[7], &kWrong[8], &kWrong[9], &kWrong[10],
                     &kWrong[11])
