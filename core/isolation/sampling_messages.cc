#include "core/isolation/sampling_messages.h"

#include <algorithm>

namespace tenon {

void write_sample_row(const SampleRow& row, WireWriter& out) {
  out.put(row.seq);
  out.put(row.prompt_tokens);
  out.put(row.key);
  out.put(row.score);
  out.put_list(std::span(row.logits, row.vocabulary));
  out.put_list(row.history);
  const size_t words = row.allowed == nullptr ? 0 : (size_t{row.vocabulary} + 63) / 64;
  out.put_list(std::span(row.allowed, words));
}

SampleRow read_sample_row(WireReader& in) {
  SampleRow row;
  row.seq = in.get<SeqId>();
  row.prompt_tokens = in.get<uint32_t>();
  row.key = in.get<RandomKey>();
  row.score = in.get<TokenId>();
  const std::span<const float> logits = in.get_list<float>();
  row.logits = logits.data();
  row.vocabulary = static_cast<uint32_t>(logits.size());
  row.history = in.get_list<TokenId>();
  const std::span<const uint64_t> allowed = in.get_list<uint64_t>();
  row.allowed = allowed.empty() ? nullptr : allowed.data();
  return row;
}

void write_sample_result(const SampleResult& result, WireWriter& out) {
  out.put(result.token);
  out.put(result.logprob);
  out.put(result.rank);
  out.put(result.top_count);
  out.put_list(std::span<const TokenLogprob>(result.top));
}

void read_sample_result(WireReader& in, SampleResult& result) {
  result.token = in.get<TokenId>();
  result.logprob = in.get<float>();
  result.rank = in.get<uint32_t>();
  result.top_count = in.get<uint32_t>();
  const std::span<const TokenLogprob> top = in.get_list<TokenLogprob>();
  std::copy_n(top.begin(), std::min(top.size(), result.top.size()), result.top.begin());
}

// The numbers cross as they lie in the struct; what it points to follows.
void write_sampling_params(const SamplingParams& params, WireWriter& out) {
  out.put(params);
  out.put_list(params.dry_breakers);
  out.put_list(params.logit_bias);
  out.put_list(params.allowed_tokens);
  out.put(static_cast<uint32_t>(params.bad_words.size()));
  for (const std::span<const TokenId> word : params.bad_words) out.put_list(word);
  out.put_list(params.order);
  out.put(static_cast<uint32_t>(params.vendor.size()));
  for (const VendorParam& vendor : params.vendor) {
    out.put_text(vendor.key);
    out.put(vendor.is_text);
    out.put(vendor.number);
    out.put_text(vendor.text);
  }
}

void read_sampling_params(WireReader& in, ReadSamplingParams& read) {
  SamplingParams& params = read.params;
  params = in.get<SamplingParams>();
  params.dry_breakers = in.get_list<TokenId>();
  params.logit_bias = in.get_list<LogitBias>();
  params.allowed_tokens = in.get_list<TokenId>();
  const auto words = in.get<uint32_t>();
  for (uint32_t i = 0; i < words && in.ok(); ++i) read.bad_words.push_back(in.get_list<TokenId>());
  params.bad_words = read.bad_words;
  params.order = in.get_list<SamplingStage>();
  const auto vendors = in.get<uint32_t>();
  for (uint32_t i = 0; i < vendors && in.ok(); ++i) {
    VendorParam& vendor = read.vendor.emplace_back();
    vendor.key = in.get_text();
    vendor.is_text = in.get<bool>();
    vendor.number = in.get<double>();
    vendor.text = in.get_text();
  }
  params.vendor = read.vendor;
}

}  // namespace tenon
