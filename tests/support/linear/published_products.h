// The tiny checkpoints of tests/golden/make_published_goldens.py, and those that the formats' own
// tools wrote (make_tool_goldens.py, make_gguf_goldens.py), with the products in double precision
// that their matrices stand for.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "core/files/npy.h"
#include "core/model/checkpoint/gguf_checkpoint.h"
#include "core/model/model.h"
#include "tests/support/folders.h"

namespace tenon {

struct PublishedCase {
  const char* name;
  const char* format;  // of q, or of the first expert's gate
};
inline constexpr PublishedCase kPublishedCases[] = {{"gptq_2bit", "u2_32"},
                                                    {"gptq_3bit_order", "u3_32"},
                                                    {"gptq_4bit", "u4_64"},
                                                    {"gptq_4bit_order", "u4_32"},
                                                    {"gptq_4bit_column_v2", "u4_64"},
                                                    {"gptq_8bit", "u8_32"},
                                                    {"awq_4bit", "u4_32"},
                                                    {"ct_w4a16", "u4_32"},
                                                    {"ct_w4a16_zeros", "u4_64"},
                                                    {"ct_w8a16", "u8_32"},
                                                    {"ct_w8a8", "q8_0"},
                                                    {"ct_fp8", "f8_32"},
                                                    {"fp8_partial_blocks", "f8_32"},
                                                    {"fp8_one_scale", "f8_32"},
                                                    {"bnb_nf4", "nf4_64"},
                                                    {"bnb_nf4_nested", "nf4_64"},
                                                    {"bnb_fp4", "fp4_64"},
                                                    {"bnb_int8", "q8_0"},
                                                    {"hqq_4bit", "u4_64"},
                                                    {"hqq_3bit", "u3_64"},
                                                    {"hqq_2bit", "u2_32"},
                                                    {"mxfp4_experts", "mxfp4"},
                                                    {"ct_nvfp4", "nvfp4_64"},
                                                    {"modelopt_nvfp4", "nvfp4_64"},
                                                    {"by_bnb_nf4", "nf4_64"},
                                                    {"by_bnb_nf4_nested", "nf4_64"},
                                                    {"by_bnb_fp4", "fp4_64"},
                                                    {"by_bnb_int8", "q8_0"},
                                                    {"by_hqq_4bit", "u4_64"},
                                                    {"by_hqq_3bit", "u3_64"},
                                                    {"by_hqq_2bit", "u2_32"},
                                                    {"by_hqq_8bit", "u8_64"},
                                                    {"by_llmcompressor_w4a16", "u4_32"},
                                                    {"by_llmcompressor_w4a16_zeros", "u4_64"},
                                                    {"by_llmcompressor_w8a16", "u8_64"},
                                                    {"by_llmcompressor_w8a8", "q8_0"},
                                                    {"by_llmcompressor_fp8", "f8_64"},
                                                    {"by_llmcompressor_fp8_block", "f8_64"},
                                                    {"by_llmcompressor_mxfp4", "mxfp4"},
                                                    {"by_llmcompressor_nvfp4", "nvfp4_64"},
                                                    {"by_modelopt_nvfp4", "nvfp4_64"},
                                                    {"by_modelopt_nvfp4_weights", "nvfp4_64"},
                                                    {"by_gptqmodel_2bit", "u2_32"},
                                                    {"by_gptqmodel_3bit_order", "u3_32"},
                                                    {"by_gptqmodel_4bit", "u4_64"},
                                                    {"by_gptqmodel_4bit_order_v2", "u4_32"},
                                                    {"by_gptqmodel_8bit_column_v2", "u8_64"},
                                                    {"by_gptqmodel_dynamic", "u4_32"},
                                                    {"by_gptqmodel_3bit_planes", "u3_32"},
                                                    {"by_gptqmodel_7bit_planes", "u8_32"},
                                                    {"by_gptqmodel_awq_3bit", "u3_32"},
                                                    {"by_gptqmodel_awq_symmetric", "u4_32"},
                                                    {"by_autoawq_4bit", "u4_32"},
                                                    {"by_autoawq_4bit_64", "u4_64"}};
inline void PrintTo(const PublishedCase& published, std::ostream* out) {
  *out << published.name;
}

class PublishedProducts {
 public:
  explicit PublishedProducts(const std::string& name) {
    const std::string folder = source_folder() + "/tests/golden/published/" + name;
    const std::string file = folder + "/model.gguf";
    Result<std::unique_ptr<Model>> model = open_model(is_model_file(file) ? file : folder);
    const auto products = read_npy_f32(folder + "/products.npy");
    EXPECT_TRUE(model.ok()) << model.status().message();
    EXPECT_TRUE(products.ok());
    if (!model.ok() || !products.ok()) return;
    model_ = *std::move(model);
    products_ = products->values;
    width_ = products->shape[1];
  }
  const Model* model() const { return model_.get(); }

  // Calls check(weight, x, products wanted) for both rows of x of every matrix.
  template <typename Check>
  void for_each(Check check) const {
    if (model_ == nullptr) return;
    for (uint32_t r = 0; r < 2; ++r) {
      size_t at = r * width_;
      for (const Weight* weight : model_->layers[0].matrices()) {
        std::vector<float> x(weight->k_in);
        for (uint32_t k = 0; k < weight->k_in; ++k) {
          x[k] = static_cast<float>(std::sin(0.37 * (k + 1) * (r + 1)));
        }
        const float* begin = products_.data() + at;
        check(*weight, x, std::vector<double>(begin, begin + weight->n_out));
        at += weight->n_out;
      }
      EXPECT_EQ(at, (r + 1) * width_);
    }
  }

 private:
  std::unique_ptr<Model> model_;
  std::vector<float> products_;
  size_t width_ = 0;
};

}  // namespace tenon
