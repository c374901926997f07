#include <tenon/drafter.h>

#include <algorithm>
#include <vector>

#include "core/isolation/description.h"
#include "core/isolation/drafting_messages.h"
#include "core/isolation/guest/guest.h"

namespace tenon {
namespace {

class DrafterServer final : public GuestServer {
 public:
  explicit DrafterServer(Drafter& plugin) : plugin_(plugin) {}

  void serve(GuestMethod method, WireReader& in, const Lane&, GuestReply& reply) override {
    Status told = hear_tellings(in);
    switch (method) {
      case GuestMethod::bind_drafter:
        return bind(in, reply);
      case GuestMethod::offer:
        return offer(in, std::move(told), reply);
      case GuestMethod::draft:
        return draft(in, std::move(told), reply);
      default:
        return observe(in, std::move(told), reply);
    }
  }

 private:
  // The first error of what was told, which the next answer carries.
  Status hear_tellings(WireReader& in) {
    Status worst;
    const auto note = [&](Status status) {
      if (worst.ok()) worst = std::move(status);
    };
    for (auto count = in.get<uint32_t>(); count > 0 && in.ok(); --count) {
      const auto what = static_cast<DraftTelling>(in.get<uint32_t>());
      if (what == DraftTelling::measured) {
        note(plugin_.measured(in.get<DraftStepCost>()));
        continue;
      }
      const auto seq = in.get<SeqId>();
      if (what == DraftTelling::begin) {
        note(plugin_.begin(seq, in.get<SeqId>()));
      } else if (what == DraftTelling::end) {
        note(plugin_.end(seq));
      } else {
        const std::span<const TokenId> history = in.get_list<TokenId>();
        const auto drafted = in.get<uint32_t>(), accepted = in.get<uint32_t>();
        note(plugin_.accept(seq, history, drafted, accepted));
      }
    }
    return worst;
  }

  // The shape's arrays lie in the message, for as long as the call.
  void bind(WireReader& in, GuestReply& reply) {
    const auto room = in.get<uint32_t>();
    const ModelShape shape = read_model_shape(in, layers_);
    wanted_.assign(room, 0);
    HiddenLayersOut wanted;
    wanted.layers = wanted_;
    WireWriter& out = reply.begin(plugin_.bind(shape, wanted));
    out.put(wanted.count);
    out.put(wanted.drawn_only);
    out.put_list(wanted_);
  }

  void read_requests(WireReader& in) {
    requests_.clear();
    const auto count = in.get<uint32_t>();
    for (uint32_t i = 0; i < count && in.ok(); ++i) requests_.push_back(read_draft_request(in));
  }

  void offer(WireReader& in, Status told, GuestReply& reply) {
    read_requests(in);
    offered_.assign(requests_.size(), 0);
    Status status = plugin_.offer(requests_, offered_);
    reply.begin(status.ok() ? told : status).put_list(offered_);
  }

  // Drafts lie directly after their history, as the header promises.
  void draft(WireReader& in, Status told, GuestReply& reply) {
    const auto rooms = in.get<DraftRooms>();
    read_requests(in);
    lay_out_drafts(rooms);
    Status status = plugin_.draft(requests_, drafts_);
    WireWriter& out = reply.begin(status.ok() ? told : status);
    for (const DraftOut& made : drafts_) {
      const size_t count = std::min<size_t>(made.count, made.tokens.size());
      out.put(DraftSaid{made.count, made.is_tree, made.has_probs});
      out.put_list(std::span<const TokenId>(made.tokens).first(count));
      out.put_list(
          std::span<const int32_t>(made.parents).first(std::min(count, made.parents.size())));
      const size_t probs = made.has_probs && made.probs != nullptr ? count * rooms.vocabulary : 0;
      out.put_list(std::span<const float>(made.probs, probs));
    }
  }
  void lay_out_drafts(const DraftRooms& rooms) {
    size_t tokens = 0, slots = 0;
    for (const DraftRequest& request : requests_) {
      tokens += request.history.size() + request.max_tokens;
      slots += request.max_tokens;
    }
    tokens_.assign(tokens, kNoToken);
    parents_.assign(rooms.parents ? slots : 0, -1);
    probs_.resize(rooms.probs ? slots * rooms.vocabulary : 0);
    drafts_.assign(requests_.size(), {});
    size_t at = 0, slot = 0;
    for (size_t i = 0; i < requests_.size(); ++i) {
      DraftRequest& request = requests_[i];
      const size_t known = request.history.size();
      std::ranges::copy(request.history, tokens_.begin() + static_cast<ptrdiff_t>(at));
      request.history = std::span<const TokenId>(tokens_).subspan(at, known);
      drafts_[i].tokens = std::span(tokens_).subspan(at + known, request.max_tokens);
      if (rooms.parents) drafts_[i].parents = std::span(parents_).subspan(slot, request.max_tokens);
      if (rooms.probs) drafts_[i].probs = probs_.data() + slot * rooms.vocabulary;
      at += known + request.max_tokens;
      slot += request.max_tokens;
    }
  }

  void observe(WireReader& in, Status told, GuestReply& reply) {
    const auto count = in.get<uint32_t>();
    std::vector<HiddenView> views;
    std::vector<std::vector<TensorView>> tensors;
    std::vector<std::vector<float>> values;
    for (uint32_t i = 0; i < count && in.ok(); ++i) {
      HiddenView& view = views.emplace_back();
      view.seq = in.get<SeqId>();
      view.positions = in.get_list<uint32_t>();
      view.layers = in.get_list<LayerId>();
      std::vector<TensorView>& states = tensors.emplace_back();
      for (size_t layer = 0; layer < view.layers.size() && in.ok(); ++layer) {
        const auto columns = in.get<uint64_t>();
        std::vector<float>& rows = values.emplace_back();
        for (size_t row = 0; row < view.positions.size() && in.ok(); ++row) {
          const std::span<const float> list = in.get_list<float>();
          rows.insert(rows.end(), list.begin(), list.end());
        }
        TensorView& state = states.emplace_back();
        state.data = rows.data();
        state.rank = 2;
        state.shape[0] = view.positions.size();
        state.shape[1] = state.stride[0] = columns;
      }
    }
    for (size_t i = 0; i < views.size(); ++i) views[i].states = tensors[i];
    Status status = plugin_.observe(views);
    reply.begin(status.ok() ? told : status);
  }

  Drafter& plugin_;
  std::vector<LayerShape> layers_;
  std::vector<LayerId> wanted_;
  std::vector<DraftRequest> requests_;
  std::vector<uint32_t> offered_;
  std::vector<TokenId> tokens_;
  std::vector<int32_t> parents_;
  std::vector<float> probs_;
  std::vector<DraftOut> drafts_;
};

}  // namespace

std::unique_ptr<GuestServer> serve_drafter(Drafter& plugin) {
  return std::make_unique<DrafterServer>(plugin);
}

}  // namespace tenon
