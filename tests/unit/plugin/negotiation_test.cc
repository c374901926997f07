#include "core/plugin/facts/negotiation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr FactOp kIn = FactOp::in;
constexpr FactOp kEquals = FactOp::equals;
constexpr FactOp kMultiple = FactOp::multiple_of;
constexpr FactOp kAtLeast = FactOp::at_least;
constexpr FactOp kAtMost = FactOp::at_most;
constexpr FactOp kContext = FactOp::context;

Participant who(std::string role, std::string name, std::vector<Fact> provides,
                std::vector<Fact> needs = {}, Origin origin = {}) {
  return {std::move(role), std::move(name), std::move(origin), std::move(provides),
          std::move(needs)};
}
Fact words(std::string_view key, std::string_view list) {
  return {key, kIn, 0, list};
}
Fact number(std::string_view key, FactOp op, int64_t n = 0) {
  return {key, op, n, {}};
}
Fact block(FactOp op, int64_t n = 0) {
  return number("kv.block_tokens", op, n);
}

NegotiationRequest among(std::vector<Participant> participants,
                         std::vector<FactPreference> preferences = {}) {
  NegotiationRequest request;
  request.participants = std::move(participants);
  request.context_tokens = 512;
  request.preferences = std::move(preferences);
  return request;
}

std::string message_of(const NegotiationRequest& request) {
  const auto resolved = negotiate(request);
  return resolved.ok() ? "" : std::string(resolved.status().message());
}
// The chosen value of a key as text, or the error.
std::string chosen(const NegotiationRequest& request, std::string_view key) {
  const auto resolved = negotiate(request);
  if (!resolved.ok()) return std::string(resolved.status().message());
  for (const auto& row : resolved->rows()) {
    if (row.key == key) return row.chosen;
  }
  return "unresolved";
}
std::string block_of(std::vector<Fact> facts) {
  std::vector<Participant> participants;
  for (const Fact& fact : facts) participants.push_back(who("part", "p", {fact}));
  return chosen(among(participants), "kv.block_tokens");
}

TEST(Negotiation, keeps_the_words_that_everyone_allows) {
  EXPECT_EQ(chosen(among({who("executor", "cpu", {words("kv.dtype", "f32 bf16 f16")}),
                          who("attention", "paged", {words("kv.dtype", "bf16 f32")})}),
                   "kv.dtype"),
            "f32");
}

TEST(Negotiation, takes_a_preference_that_is_allowed) {
  const std::vector<Participant> parts = {
      who("executor", "cpu", {words("kv.dtype", "f32 bf16 f16")}),
      who("attention", "paged", {words("kv.dtype", "bf16 f32")})};
  EXPECT_EQ(chosen(among(parts, {{"kv.dtype", "bf16"}}), "kv.dtype"), "bf16");
  EXPECT_EQ(chosen(among(parts, {{"kv.dtype", "f16"}, {"kv.dtype", "bf16"}}), "kv.dtype"), "bf16");
}

TEST(Negotiation, combines_what_is_said_of_numbers) {
  EXPECT_EQ(block_of({block(kMultiple, 4), block(kMultiple, 6)}), "12");
  EXPECT_EQ(block_of({block(kMultiple, 16), block(kAtLeast, 17)}), "32");
  EXPECT_EQ(block_of({block(kEquals, 32), block(kMultiple, 16)}), "32");
  EXPECT_EQ(block_of({block(kContext), block(kAtLeast, 1)}), "512");
  EXPECT_EQ(block_of({block(kAtLeast, 1)}), "1");
}

TEST(Negotiation, finds_that_numbers_leave_nothing) {
  EXPECT_THAT(block_of({block(kMultiple, 16), block(kAtLeast, 17), block(kAtMost, 31)}),
              HasSubstr("do not fit"));
  EXPECT_THAT(block_of({block(kEquals, 8), block(kMultiple, 16)}), HasSubstr("do not fit"));
  EXPECT_THAT(block_of({block(kMultiple, INT64_MAX), block(kMultiple, INT64_MAX - 1)}),
              HasSubstr("do not fit"));
  EXPECT_THAT(block_of({block(kAtLeast, INT64_MAX), block(kMultiple, 2)}), HasSubstr("do not fit"));
}

TEST(Negotiation, takes_several_equals_of_one_as_alternatives) {
  const Participant kernel =
      who("attention", "paged",
          {number("attn.head_dim", kEquals, 64), number("attn.head_dim", kEquals, 128)});
  const auto with_model = [&](int64_t dim) {
    return chosen(among({kernel, who("model", "m", {number("attn.head_dim", kEquals, dim)})}),
                  "attn.head_dim");
  };
  EXPECT_EQ(with_model(64), "64");
  EXPECT_EQ(with_model(128), "128");
  EXPECT_THAT(with_model(80), HasSubstr("attention paged : 64 | 128"));
}

TEST(Negotiation, reads_words_of_digits_as_numbers_beside_numbers) {
  EXPECT_EQ(chosen(among({who("attention", "paged", {words("attn.head_dim", "64 96")}),
                          who("model", "m", {number("attn.head_dim", kEquals, 96)})}),
                   "attn.head_dim"),
            "96");
}

Fact all_of(std::string_view key, int64_t number, std::string_view list = {}) {
  return {key, FactOp::all_of, number, list};
}

TEST(Negotiation, meets_several_demands_of_one_side_by_side) {
  const Participant model =
      who("model", "m", {}, {all_of("attn.head_dim", 128), all_of("attn.head_dim", 256)});
  const auto with_kernel = [&](Fact heads) {
    return chosen(among({model, who("attention", "paged", {heads})}), "attn.head_dim");
  };
  EXPECT_EQ(with_kernel(number("attn.head_dim", kAtMost, 256)), "128 256");
  EXPECT_EQ(with_kernel(words("attn.head_dim", "64 128 256")), "128 256");
  EXPECT_EQ(with_kernel(number("attn.head_dim", kAtMost, 128)),
            "model \"m\" and attention \"paged\" do not fit\n"
            "  attn.head_dim     model m         : needs 128 and 256\n"
            "                    attention paged : at most 128");
}

TEST(Negotiation, hands_over_all_that_several_parts_demand) {
  const auto resolved =
      negotiate(among({who("model", "m", {}, {all_of("attn.head_dim", 128)}),
                       who("drafter", "d", {}, {all_of("attn.head_dim", 64)}),
                       who("attention", "paged", {number("attn.head_dim", kAtLeast, 1)})}));
  ASSERT_TRUE(resolved.ok()) << resolved.status().message();
  EXPECT_EQ(resolved->find("attn.head_dim")->word, "128 64");
  EXPECT_EQ(resolved->find("attn.head_dim")->number, 128);
}

TEST(Negotiation, takes_words_of_a_set_that_one_part_needs) {
  const Participant drafter =
      who("drafter", "tree", {}, {all_of("attn.mask.tree", 0, "yes"), all_of("acme.k", 0, "a b")});
  EXPECT_EQ(
      chosen(among({drafter, who("attention", "x",
                                 {words("attn.mask.tree", "no yes"), words("acme.k", "c b a")})}),
             "acme.k"),
      "a b");
  EXPECT_THAT(
      message_of(among({drafter, who("attention", "x",
                                     {words("attn.mask.tree", "no"), words("acme.k", "a b")})})),
      HasSubstr("drafter tree : needs yes"));
}

TEST(Negotiation, refuses_a_demand_that_nobody_speaks_about) {
  EXPECT_THAT(message_of(among({who("model", "m", {}, {all_of("attn.mask.sliding", 0, "yes")})})),
              HasSubstr("about which no part of this pipeline says anything"));
}

TEST(Negotiation, counts_the_keys_about_which_parts_disagree) {
  const std::vector<Participant> parts = {
      who("a", "x", {words("kv.dtype", "f32"), words("kv.swap", "no"), words("kv.rollback", "no")}),
      who("b", "y", {words("kv.dtype", "f16"), words("kv.swap", "yes")})};
  EXPECT_EQ(conflicts(parts, 512), 2u);
  EXPECT_EQ(conflicts({parts[0]}, 512), 0u);
}

TEST(Negotiation, leaves_a_single_opinion_as_it_is) {
  const auto resolved =
      negotiate(among({who("kv_cache", "prefix", {words("kv.rollback", "yes")})}));
  ASSERT_TRUE(resolved.ok());
  ASSERT_NE(resolved->find("kv.rollback"), nullptr);
  EXPECT_EQ(resolved->find("kv.rollback")->word, "yes");
  EXPECT_EQ(resolved->find("kv.swap"), nullptr);
}

TEST(Negotiation, facts_survive_a_move) {
  auto resolved = negotiate(among({who("kv_cache", "prefix", {words("kv.rollback", "yes")})}));
  ASSERT_TRUE(resolved.ok());
  const ResolvedFacts moved = *std::move(resolved);
  EXPECT_EQ(moved.find("kv.rollback")->word, "yes");
}

TEST(Negotiation, refuses_a_need_that_nobody_speaks_about) {
  EXPECT_EQ(message_of(among({who("drafter", "eagle", {}, {words("draft.needs", "hidden")},
                                  {"pipeline.toml", 20, 10}),
                              who("scheduler", "fifo", {})})),
            "pipeline.toml:20:10: drafter \"eagle\" needs draft.needs, about which no part of this "
            "pipeline says anything\n"
            "  draft.needs       drafter eagle : needs hidden   (pipeline.toml:20:10)");
}

TEST(Negotiation, meets_a_need_that_someone_offers) {
  EXPECT_EQ(chosen(among({who("drafter", "ngram", {}, {words("kv.rollback", "yes")}),
                          who("kv_cache", "paged", {words("kv.rollback", "yes")})}),
                   "kv.rollback"),
            "yes");
  EXPECT_THAT(message_of(among({who("drafter", "ngram", {}, {words("kv.rollback", "yes")}),
                                who("kv_cache", "ring", {words("kv.rollback", "no")})})),
              HasSubstr("drafter \"ngram\" and kv_cache \"ring\" do not fit"));
}

TEST(Negotiation, says_who_said_what_where_and_what_to_try) {
  NegotiationRequest request = among(
      {who("attention", "paged", {block(kMultiple, 16)}, {}, {"pipeline.toml", 14, 10}),
       who("kv_cache", "prefix", {block(kAtLeast, 1)}, {}, {"pipeline.toml", 16, 10}),
       who("config", "kv_cache.block_tokens", {block(kEquals, 1)}, {}, {"pipeline.toml", 18, 1})});
  request.alternatives = [] {
    return std::vector<Participant>{who("attention", "gather", {block(kAtLeast, 1)}),
                                    who("attention", "wide", {block(kMultiple, 64)}),
                                    who("kv_cache", "naive", {block(kContext)})};
  };
  EXPECT_EQ(message_of(request),
            "pipeline.toml:14:10: attention \"paged\" and the setting kv_cache.block_tokens do not "
            "fit\n"
            "  kv.block_tokens   attention paged              : multiple of 16   "
            "(pipeline.toml:14:10)\n"
            "                    kv_cache prefix              : any              "
            "(pipeline.toml:16:10)\n"
            "                    config kv_cache.block_tokens : 1                "
            "(pipeline.toml:18:1)\n"
            "  try: kv_cache.block_tokens = 16, or attention.plugin = \"gather\" (any)");
}

TEST(Negotiation, does_not_propose_what_breaks_something_else) {
  NegotiationRequest request =
      among({who("attention", "paged", {block(kMultiple, 16), words("kv.dtype", "f32")}),
             who("kv_cache", "tiny", {block(kEquals, 1), words("kv.dtype", "f32")})});
  request.alternatives = [] {
    return std::vector<Participant>{
        who("attention", "half", {block(kAtLeast, 1), words("kv.dtype", "f16")}),
        who("attention", "full", {block(kAtLeast, 1), words("kv.dtype", "f32")})};
  };
  EXPECT_THAT(message_of(request), HasSubstr("try: attention.plugin = \"full\" (any)"));
  EXPECT_THAT(message_of(request), Not(HasSubstr("half")));
}

TEST(Negotiation, lists_every_key_that_does_not_work_out) {
  const std::string message = message_of(among(
      {who("attention", "a", {words("kv.dtype", "f32"), words("kv.sharing", "none")}),
       who("model", "m", {words("kv.dtype", "bf16"), words("kv.sharing", "copy_on_write")})}));
  EXPECT_THAT(message, HasSubstr("kv.dtype"));
  EXPECT_THAT(message, HasSubstr("kv.sharing"));
}

TEST(Negotiation, names_everyone_when_no_two_alone_are_at_odds) {
  EXPECT_THAT(
      message_of(among({who("a", "x", {words("k", "1a 2a")}), who("b", "y", {words("k", "2a 3a")}),
                        who("c", "z", {words("k", "1a 3a")})})),
      HasSubstr("a \"x\" and b \"y\" and c \"z\" do not fit"));
}

TEST(Negotiation, makes_rows_as_invariant_as_the_weakest_part) {
  const Participant strong = who("attention", "paged", {words("numerics.rows", "invariant")});
  const Participant weak = who("linear", "vendor", {words("numerics.rows", "batch")});
  EXPECT_EQ(chosen(among({strong}), "numerics.rows"), "invariant");
  EXPECT_EQ(chosen(among({strong, weak}), "numerics.rows"), "batch");
  Participant strict = who("config", "deterministic", {}, {words("numerics.rows", "invariant")});
  strict.without = "deterministic = false";
  EXPECT_THAT(message_of(among({strong, weak, strict})), HasSubstr("numerics.rows"));
  EXPECT_THAT(message_of(among({strong, weak, strict})), HasSubstr("try: deterministic = false"));
  EXPECT_EQ(chosen(among({strong, strict}), "numerics.rows"), "invariant");
}

TEST(Negotiation, prints_a_table_of_who_said_what) {
  const auto resolved =
      negotiate(among({who("attention", "paged", {block(kMultiple, 16)}),
                       who("kv_cache", "prefix", {block(kAtLeast, 1)}, {}, {"p.toml", 3, 1})},
                      {{"kv.block_tokens", "", 32}}));
  ASSERT_TRUE(resolved.ok());
  EXPECT_EQ(resolved->table(),
            "kv.block_tokens    = 32\n"
            "                    attention paged : multiple of 16\n"
            "                    kv_cache prefix : any              (p.toml:3:1)\n");
}

TEST(Negotiation, asks_for_alternatives_only_when_something_does_not_fit) {
  NegotiationRequest request = among({who("attention", "paged", {block(kMultiple, 16)})});
  request.alternatives = []() -> std::vector<Participant> {
    ADD_FAILURE() << "nobody needed alternatives";
    return {};
  };
  EXPECT_TRUE(negotiate(request).ok());
}

}  // namespace
}  // namespace tenon
