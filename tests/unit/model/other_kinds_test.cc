// Folders and files that are something else than a model's: one sentence says what, and what to do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/model/model.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/model/parsed_plan.h"

namespace tenon {
namespace {

using testing::HasSubstr;

TEST(OtherKinds, folders_of_other_kinds_are_called_by_their_names) {
  const std::string base = R"({"model_type":"llama",)";
  const char* mlx = R"("quantization":{"group_size":64,"bits":4})";
  EXPECT_THAT(refusal(base + mlx + "}"),
              HasSubstr("'quantization' is there: a folder that MLX quantised, with codes in u32, "
                        "'scales' and 'biases', which is not read; open the model that it was made "
                        "from, or convert it with 'mlx_lm.convert --dequantize'"));
  EXPECT_THAT(refusal(base + mlx + R"(,"quantization_config":{"group_size":64,"bits":4}})"),
              HasSubstr("a folder that MLX quantised"));
  EXPECT_THAT(refusal(R"({"model_type":"gemma3","text_config":{},)" + std::string(mlx) + "}"),
              HasSubstr("a folder that MLX quantised"));
  EXPECT_THAT(refusal(base + R"("compression_config":{"format":"pack-quantized"}})"),
              HasSubstr("'compression_config' is there, which old versions of compressed-tensors "
                        "wrote in place of 'quantization_config'; expected the newer name – rename "
                        "the key"));
}

TEST(OtherKinds, a_pointer_of_git_lfs_is_called_by_its_name) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, 'a') +
      "\nsize 988097824\n";
  constexpr const char* kSentence =
      "is a Git LFS pointer of 134 bytes to a file of 988097824; expected the file itself – run "
      "'git lfs pull' in its folder, or download it";
  EXPECT_THAT(refusal(pointer), HasSubstr(kSentence));
  const TemporaryFolder folder;
  folder.write_file("config.json", R"({"model_type":"llama"})");
  const auto opened = [](const std::string& path) {
    return std::string(open_model(path).status().message());
  };
  folder.write_file("model.safetensors", pointer);
  EXPECT_THAT(opened(folder.path()), HasSubstr("model.safetensors: " + std::string(kSentence)));
  EXPECT_THAT(opened(folder.write_file("m.gguf", pointer)), HasSubstr(kSentence));
}

}  // namespace
}  // namespace tenon
