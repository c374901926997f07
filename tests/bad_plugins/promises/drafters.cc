// Drafters that break one promise each.
#define SOUND_PLUGIN "sound_drafter.h"
#include <unistd.h>

#include <stdexcept>
#include <vector>

#include "tests/bad_plugins/promises/wrong.h"

namespace {

using Sound = sdk::LookupDrafter<PairIndex, Options>;
using Requests = std::span<const DraftRequest>;

struct OffersMore : Sound {
  using Sound::Sound;
  void offer(Requests requests, std::span<uint32_t> offered) {
    Sound::offer(requests, offered);
    for (size_t i = 0; i < requests.size(); ++i) offered[i] = requests[i].max_tokens + 1;
  }
};
struct DraftsMore : Sound {
  using Sound::Sound;
  void draft(Requests requests, std::span<DraftOut> drafts) {
    Sound::draft(requests, drafts);
    for (size_t i = 0; i < requests.size(); ++i) drafts[i].count = requests[i].max_tokens + 1;
  }
};
struct DraftsStrangers : Sound {
  using Sound::Sound;
  void draft(Requests requests, std::span<DraftOut> drafts) {
    Sound::draft(requests, drafts);
    for (DraftOut& out : drafts) {
      if (out.count > 0) out.tokens[0] = 1'000'000;
    }
  }
};
struct RemembersTheLast : Sound {
  using Sound::Sound;
  void draft(Requests requests, std::span<DraftOut> drafts) {
    Sound::draft(requests, drafts);
    for (DraftOut& out : drafts) {
      if (out.count == 0) continue;
      const TokenId first = out.tokens[0];
      out.tokens[0] = (first + last_) % 40;
      last_ = first;
    }
  }
  TokenId last_ = 0;
};
TokenId last_of_all = 0;
struct SharesState : Sound {
  using Sound::Sound;
  void draft(Requests requests, std::span<DraftOut> drafts) {
    Sound::draft(requests, drafts);
    for (DraftOut& out : drafts) {
      if (out.count > 0) out.tokens[0] = last_of_all++ % 40;
    }
  }
};
// One index of whatever is offered, whoever's it is.
struct MixesSequences : Sound {
  using Sound::Sound;
  void draft(Requests requests, std::span<DraftOut> drafts) {
    Sound::draft(requests, drafts);
    for (size_t i = 0; i < requests.size(); ++i) {
      if (requests[i].seq > 1) mixed_ = requests[i].history.back();
      if (drafts[i].count > 0 && mixed_ != kNoToken) drafts[i].tokens[0] = mixed_;
    }
  }
  void offer(Requests requests, std::span<uint32_t> offered) {
    Sound::offer(requests, offered);
    for (const DraftRequest& request : requests) {
      if (request.seq > 1) mixed_ = request.history.back();
    }
  }
  TokenId mixed_ = kNoToken;
};
struct NeedsParents : Sound {
  using Sound::Sound;
  Status begin(SeqId seq, SeqId parent) {
    Sound::begin(seq, parent);
    parent_ = parent;
    return {};
  }
  Status end(SeqId seq) {
    Sound::end(seq);
    if (seq == parent_) return Status::error(StatusCode::failed, "a child still needs its parent");
    return {};
  }
  SeqId parent_ = kNoSeq;
};

struct NeedsTwoTokens : Sound {
  using Sound::Sound;
  Status offer(std::span<const DraftRequest> requests, std::span<uint32_t> offered) {
    for (const DraftRequest& request : requests) {
      if (request.history.size() < 2) return Status::error(StatusCode::failed, "too short a text");
    }
    Sound::offer(requests, offered);
    return {};
  }
};

struct RemembersEveryone : Sound {
  using Sound::Sound;
  void begin(SeqId seq, SeqId parent) {
    begun_.push_back(seq);
    Sound::begin(seq, parent);
  }
  std::vector<SeqId> begun_;
};
struct IgnoresItsOptions : Sound {
  IgnoresItsOptions(const HostServices& host, const PipelineFacts& facts, const Options&)
      : Sound(host, facts, Options()) {}
};

// One that nothing is known of: no text makes it propose anything …
struct ProposesNothing : Sound {
  using Sound::Sound;
  void offer(Requests, std::span<uint32_t> offered) {
    std::fill(offered.begin(), offered.end(), 0u);
  }
};
// … and one that does only as an option asks, and then writes past its room.
struct WritesPastWhereAsked : Sound {
  WritesPastWhereAsked(const HostServices& host, const PipelineFacts& facts, const Options& options)
      : Sound(host, facts, options), asked_(options.max_draft_tokens >= 16) {}
  void offer(Requests requests, std::span<uint32_t> offered) {
    Sound::offer(requests, offered);
    if (!asked_) std::fill(offered.begin(), offered.end(), 0u);
  }
  void draft(Requests requests, std::span<DraftOut> drafts) {
    Sound::draft(requests, drafts);
    for (DraftOut& out : drafts) out.tokens.data()[out.tokens.size()] = 7;
  }
  bool asked_;
};
struct ThrowsAtBounds : Sound {
  ThrowsAtBounds(const HostServices& host, const PipelineFacts& facts, const Options& options)
      : Sound(host, facts, options) {
    if (options.max_draft_tokens == 32) throw std::out_of_range("vector::_M_range_check");
  }
};
// Its options count after five hundred tokens: a drafter's good right.
struct WarmsUp : Sound {
  WarmsUp(const HostServices& host, const PipelineFacts& facts, const Options& options)
      : Sound(host, facts, Options{options.max_draft_tokens, false}), adaptive_(options.adaptive) {}
  void offer(Requests requests, std::span<uint32_t> offered) {
    Sound::offer(requests, offered);
    for (size_t i = 0; i < requests.size(); ++i) {
      if (adaptive_ && requests[i].history.size() > 500) offered[i] = std::min(offered[i], 1u);
    }
  }
  bool adaptive_;
};
struct Sleeps : Sound {
  using Sound::Sound;
  void offer(Requests, std::span<uint32_t>) { ::pause(); }
};

template <typename Class>
constexpr PluginDescriptor made(std::string_view id) {
  return wrong<Drafter, Class, Options>(id);
}
constexpr PluginDescriptor kWrong[] = {
    made<OffersMore>("test.offers_more"),
    made<DraftsMore>("test.drafts_more"),
    made<DraftsStrangers>("test.drafts_strangers"),
    made<RemembersTheLast>("test.remembers_the_last"),
    made<SharesState>("test.shares_state"),
    made<MixesSequences>("test.mixes_sequences"),
    made<NeedsParents>("test.needs_parents"),
    made<NeedsTwoTokens>("test.needs_two_tokens"),
    made<RemembersEveryone>("test.remembers_everyone"),
    made<IgnoresItsOptions>("test.ignores_its_options"),
    made<ProposesNothing>("test.proposes_nothing"),
    made<WritesPastWhereAsked>("test.writes_past_where_asked"),
    made<ThrowsAtBounds>("test.throws_at_bounds"),
    made<WarmsUp>("test.warms_up"),
    made<Sleeps>("test.sleeps"),
};

}  // namespace

TENON_PLUGIN_LIBRARY(&kPlugin, &kWrong[0], &kWrong[1], &kWrong[2], &kWrong[3], &kWrong[4],
                     &kWrong[5], &kWrong[6], &kWrong[7], &kWrong[8], &kWrong[9], &kWrong[10],
                     &kWrong[11], &kWrong[12], &kWrong[13], &kWrong[14])
