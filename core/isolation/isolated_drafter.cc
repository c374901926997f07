#include "core/isolation/isolated_drafter.h"

#include <algorithm>

#include "core/base/log.h"
#include "core/isolation/description.h"
#include "core/isolation/drafting_messages.h"

namespace tenon {
namespace {

constexpr LaneSizes kDrafterLane{
    .lanes = 1, .call_bytes = uint64_t{512} << 20, .reply_bytes = uint64_t{512} << 20};

}  // namespace

IsolatedDrafter::IsolatedDrafter(IsolatedOrigin origin)
    : plugin_(std::move(origin), kDrafterLane) {}

Result<std::unique_ptr<IsolatedDrafter>> IsolatedDrafter::create(IsolatedOrigin origin) {
  std::unique_ptr<IsolatedDrafter> made(new IsolatedDrafter(std::move(origin)));
  TENON_RETURN_IF_ERROR(made->plugin_.start());
  return made;
}

template <typename Write>
void IsolatedDrafter::tell(uint32_t what, const Write& write) {
  if (!plugin_.runs()) return;
  const size_t before = told_.size();
  const auto all = [&](WireWriter& out) {
    out.put(what);
    write(out);
  };
  WireWriter length({});
  all(length);
  told_.resize(before + length.bytes());
  WireWriter out{std::span(told_).subspan(before)};
  all(out);
  ++tellings_;
}

Status IsolatedDrafter::ask(GuestMethod method, const char* name,
                            const IsolatedPlugin::Write& write, const IsolatedPlugin::Read& read) {
  Status status = plugin_.call(
      0, method, name,
      [&](WireWriter& out) {
        out.put(tellings_);
        out.put_raw(told_);
        write(out);
      },
      read);
  told_.clear();
  tellings_ = 0;
  if (!plugin_.runs()) {
    plugin_.note_sequel("nothing is drafted any more");
    log(LogLevel::warning, "drafter " + plugin_.id(), "from here on nothing is drafted");
  }
  return status;
}

Status IsolatedDrafter::bind(const ModelShape& target, HiddenLayersOut& wanted) noexcept {
  vocabulary_ = target.vocabulary;
  return ask(
      GuestMethod::bind_drafter, "bind",
      [&](WireWriter& out) {
        out.put(static_cast<uint32_t>(wanted.layers.size()));
        write_model_shape(target, out);
      },
      [&](WireReader& in) {
        wanted.count = in.get<uint32_t>();
        wanted.drawn_only = in.get<bool>();
        in.get_into(wanted.layers);
      });
}

Status IsolatedDrafter::begin(SeqId seq, SeqId parent) noexcept {
  tell(static_cast<uint32_t>(DraftTelling::begin), [&](WireWriter& out) {
    out.put(seq);
    out.put(parent);
  });
  return {};
}

Status IsolatedDrafter::end(SeqId seq) noexcept {
  tell(static_cast<uint32_t>(DraftTelling::end), [&](WireWriter& out) { out.put(seq); });
  return {};
}

Status IsolatedDrafter::accept(SeqId seq, std::span<const TokenId> history, uint32_t drafted,
                               uint32_t accepted) noexcept {
  tell(static_cast<uint32_t>(DraftTelling::accept), [&](WireWriter& out) {
    out.put(seq);
    out.put_list(history);
    out.put(drafted);
    out.put(accepted);
  });
  return {};
}

Status IsolatedDrafter::measured(const DraftStepCost& cost) noexcept {
  tell(static_cast<uint32_t>(DraftTelling::measured), [&](WireWriter& out) { out.put(cost); });
  return {};
}

Status IsolatedDrafter::offer(std::span<const DraftRequest> requests,
                              std::span<uint32_t> offered) noexcept {
  if (!plugin_.runs()) {
    std::ranges::fill(offered, 0u);
    return {};
  }
  return ask(
      GuestMethod::offer, "offer",
      [&](WireWriter& out) {
        out.put(static_cast<uint32_t>(requests.size()));
        for (const DraftRequest& request : requests) write_draft_request(request, out);
      },
      [&](WireReader& in) { in.get_into(offered); });
}

Status IsolatedDrafter::draft(std::span<const DraftRequest> requests,
                              std::span<DraftOut> drafts) noexcept {
  if (!plugin_.runs()) return {};
  DraftRooms rooms{vocabulary_, false, false};
  for (const DraftOut& out : drafts) {
    rooms.parents = rooms.parents || !out.parents.empty();
    rooms.probs = rooms.probs || out.probs != nullptr;
  }
  return ask(
      GuestMethod::draft, "draft",
      [&](WireWriter& out) {
        out.put(rooms);
        out.put(static_cast<uint32_t>(requests.size()));
        for (const DraftRequest& request : requests) write_draft_request(request, out);
      },
      [&](WireReader& in) {
        for (DraftOut& out : drafts) {
          const auto said = in.get<DraftSaid>();
          const std::span<const TokenId> tokens = in.get_list<TokenId>();
          const std::span<const int32_t> parents = in.get_list<int32_t>();
          const std::span<const float> probs = in.get_list<float>();
          out.count = said.count;
          std::copy_n(tokens.begin(), std::min(tokens.size(), out.tokens.size()),
                      out.tokens.begin());
          out.is_tree = said.is_tree != 0;
          std::copy_n(parents.begin(), std::min(parents.size(), out.parents.size()),
                      out.parents.begin());
          const size_t room = out.probs == nullptr ? 0 : out.tokens.size() * vocabulary_;
          out.has_probs = said.has_probs != 0 && room > 0 && probs.size() <= room;
          if (out.has_probs) std::ranges::copy(probs, out.probs);
        }
      });
}

Status IsolatedDrafter::observe(std::span<const HiddenView> hidden) noexcept {
  if (!plugin_.runs()) return {};
  return ask(GuestMethod::observe, "observe",
             [&](WireWriter& out) {
               out.put(static_cast<uint32_t>(hidden.size()));
               for (const HiddenView& view : hidden) {
                 out.put(view.seq);
                 out.put_list(view.positions);
                 out.put_list(view.layers);
                 for (const TensorView& state : view.states) {
                   const uint64_t rows = state.shape[0], columns = state.shape[1];
                   out.put(columns);
                   for (uint64_t row = 0; row < rows; ++row) {
                     const auto* first =
                         static_cast<const float*>(state.data) + row * state.stride[0];
                     out.put_list(std::span(first, columns));
                   }
                 }
               }
             },
             {});
}

}  // namespace tenon
