// How a head's chain is drafted is tested next to eagle3, which shares it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tenon/drafter.h>
#include <tenon/extensions/draft_head.h>
#include <tenon/model.h>
#include <tenon/model_runner.h>

#include <string>
#include <string_view>

#include "tests/support/plugin_instance.h"

namespace tenon {
namespace {

using testing::HasSubstr;

// What the host offers; the runner itself is never called here.
ModelRunner* runner = nullptr;
LayerId layers[] = {4};
HiddenLayersOut head{layers, 1, false};
ModelShape shape;
std::string_view kind = "mtp";

const void* extension_of_host(void*, std::string_view id) noexcept {
  if (id == kModelRunner) return &runner;
  if (id == kModelRunnerShape) return &shape;
  if (id == kDraftHeadKind) return &kind;
  return id == kDraftHead ? &head : nullptr;
}

class MtpDrafter : public testing::Test {
 protected:
  MtpDrafter() {
    kind = "mtp";
    host_.services.extension = extension_of_host;
  }
  std::string refusal() {
    const PluginDescriptor& descriptor = *find_descriptor("mtp");
    alignas(16) std::byte options[64];
    descriptor.construct_options(options);
    void* made = nullptr;
    return std::string(descriptor.create(host_.services, {}, options, &made).message());
  }

  TestHost host_;
};

TEST_F(MtpDrafter, reads_the_states_that_the_layers_for_drafts_were_trained_on) {
  PluginInstance<Drafter> drafter("mtp", host_, {});
  ModelShape target;
  target.hidden = 8;
  target.layer_count = 4;
  LayerId wanted[5] = {};
  HiddenLayersOut out;
  out.layers = wanted;
  ASSERT_TRUE(drafter->bind(target, out).ok());
  ASSERT_EQ(out.count, 1u);
  EXPECT_EQ(wanted[0], 4u);
}

TEST_F(MtpDrafter, says_what_is_needed_where_there_is_nothing_to_draft_with) {
  host_.services.extension = nullptr;
  EXPECT_THAT(refusal(), HasSubstr("there is no head to draft with; use a model whose folder has"));
}

TEST_F(MtpDrafter, names_the_drafter_for_a_head_of_another_kind) {
  kind = "eagle3";
  EXPECT_THAT(refusal(), HasSubstr("set drafter.plugin = \"eagle3\""));
}

}  // namespace
}  // namespace tenon
