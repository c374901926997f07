#include "core/config/other_words.h"

#include <algorithm>

#include "core/base/text.h"

namespace tenon {
namespace {

constexpr OtherWord kWords[] = {
    // Of vLLM and SGLang.
    {"max_model_len", "limits.context_tokens"},
    {"context_length", "limits.context_tokens"},
    {"max_num_seqs", "limits.max_sequences"},
    {"max_running_requests", "limits.max_sequences"},
    {"max_num_batched_tokens", "limits.max_batch_tokens"},
    {"chunked_prefill_size", "limits.max_batch_tokens"},
    {"enable_chunked_prefill", "scheduler.plugin=chunked"},
    {"gpu_memory_utilization", "kv_cache.memory"},
    {"mem_fraction_static", "kv_cache.memory"},
    {"kv_cache_dtype", "kv_cache.dtype"},
    {"block_size", "kv_cache.block_tokens"},
    {"page_size", "kv_cache.block_tokens"},
    {"swap_space", "kv_cache.swap_memory"},
    {"enable_prefix_caching", "kv_cache.plugin=prefix"},
    {"attention_backend", "attention.plugin"},
    {"speculative_config", "drafter.plugin"},
    {"speculative_model", "drafter.model"},
    {"lora_modules", "adapters.NAME"},
    {"device", "executor.plugin"},
    {"quantization", "linear.plugin"},
    {"kv_offloading_size", "kv_cache.tiers"},
    {"enable_hierarchical_cache", "kv_cache.tiers"},
    // Of llama.cpp.
    {"ctx_size", "limits.context_tokens"},
    {"n_ctx", "limits.context_tokens"},
    {"parallel", "limits.max_sequences"},
    {"np", "limits.max_sequences"},
    {"batch_size", "limits.max_batch_tokens"},
    {"ubatch_size", "limits.max_batch_tokens"},
    {"threads", "executor.threads"},
    {"n_threads", "executor.threads"},
    {"gpu_layers", "executor.plugin=cuda"},
    {"n_gpu_layers", "executor.plugin=cuda"},
    {"ngl", "executor.plugin=cuda"},
    {"cache_type_k", "kv_cache.dtype"},
    {"cache_type_v", "kv_cache.dtype"},
    {"flash_attn", "attention.plugin"},
    {"model_draft", "drafter.model"},
    {"lora", "adapters.NAME"},
    // Tables.
    {"cache", "kv_cache"},
    {"kv", "kv_cache"},
    {"kv_store", "kv_cache.tiers"},
    {"tiers", "kv_cache.tiers"},
    {"batching", "scheduler"},
    {"sampling", "generation"},
    {"draft", "drafter"},
    {"speculation", "drafter"},
    {"lora_adapters", "adapters"},
};

// "--Max-Model-Len" and "engine.max_model_len" as "max_model_len".
std::string plain(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
  if (const size_t dot = word.rfind('.'); dot != word.npos) word.remove_prefix(dot + 1);
  std::string made(word);
  for (char& c : made) {
    if (c == '-') c = '_';
    if ('A' <= c && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return made;
}

}  // namespace

std::span<const OtherWord> other_words() {
  return kWords;
}

const OtherWord* find_other_word(std::string_view word) {
  const auto found = std::ranges::find(kWords, plain(word), &OtherWord::word);
  return found == std::end(kWords) ? nullptr : found;
}

std::string meant_here(std::string_view word, std::span<const std::string> known) {
  const OtherWord* found = find_other_word(word);
  if (found != nullptr) return "; here that is " + std::string(found->here);
  return did_you_mean(word.substr(word.rfind('.') + 1), known);
}

}  // namespace tenon
