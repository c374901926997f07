#include "core/server/api/read/field_table.h"

namespace tenon::api {
namespace {

constexpr uint32_t bit(Place place) {
  return 1u << static_cast<unsigned>(place);
}
constexpr uint32_t kCompletions = bit(Place::completions), kChat = bit(Place::chat),
                   kResponses = bit(Place::responses), kMessages = bit(Place::messages),
                   kEmbeddings = bit(Place::embeddings), kTokenize = bit(Place::tokenize),
                   kDetokenize = bit(Place::detokenize), kMessage = bit(Place::chat_message),
                   kItem = bit(Place::item), kTool = bit(Place::messages_tool),
                   kStreamOptions = bit(Place::stream_options), kReasoning = bit(Place::reasoning),
                   kText = bit(Place::response_text), kThinking = bit(Place::thinking),
                   kConfig = bit(Place::output_config);
constexpr uint32_t kCompletionsAndChat = kCompletions | kChat;
constexpr uint32_t kSampled = kCompletionsAndChat | kResponses;
constexpr uint32_t kTalking = kChat | kResponses | kMessages;
constexpr uint32_t kAll = kSampled | kMessages;

// A reader reads it.
constexpr FieldRule taken(std::string_view name, uint32_t places) {
  return {.name = name, .places = places, .use = FieldUse::taken};
}
// Stands in answers, and may be sent back with them.
constexpr FieldRule echoed(std::string_view name, uint32_t places) {
  return {.name = name, .places = places, .use = FieldUse::echoed};
}
// Has no effect here, which the header Tenon-Ignored-Fields says; of a neutral value, nothing is
// said.
constexpr FieldRule ignored(std::string_view name, uint32_t places, std::string_view why,
                            std::string_view neutral = "[]") {
  return {.name = name,
          .places = places,
          .use = FieldUse::ignored,
          .neutral = neutral,
          .sentence = why};
}
// Refused, but for the neutral values: they ask for what happens anyway.
constexpr FieldRule only(std::string_view neutral, std::string_view name, uint32_t places,
                         std::string_view why) {
  return {.name = name, .places = places, .neutral = neutral, .sentence = why};
}
// Refused, whatever it says.
constexpr FieldRule refused(std::string_view name, uint32_t places, std::string_view sentence) {
  return {.name = name, .places = places, .sentence = sentence};
}

constexpr std::string_view kNobody = "nobody is told who asks";
constexpr std::string_view kCaching = "prompts that begin alike are kept where there is room";
constexpr std::string_view kNames = "requests have ids of the server's own";
constexpr std::string_view kMedia = "models of text run here";
constexpr std::string_view kNoRoom =
    "is not offered: K/V goes between workers for /v1/completions and /v1/chat/completions";
constexpr std::string_view kNotShown = "it is not told here";
constexpr std::string_view kStateless =
    "is not offered: nothing is stored here – send the whole input";
constexpr std::string_view kOneTier = "all requests are served alike, by their priority";
constexpr std::string_view kOtherService = "says something to another service";
constexpr std::string_view kOnItsOwn = "how long a model thinks is its own affair";

constexpr FieldRule kRules[] = {
    // What the answer is to.
    taken("model", kAll | kEmbeddings | kTokenize | kDetokenize),
    taken("messages", kChat | kMessages | kTokenize),
    refused("messages", kEmbeddings, "is not offered: vectors are of \"input\" – send texts"),
    taken("prompt", kCompletions | kTokenize),
    refused("prompt", kResponses, kStateless),
    taken("input", kResponses | kEmbeddings),
    taken("instructions", kResponses),
    taken("system", kMessages),
    taken("tokens", kDetokenize),
    taken("echo", kCompletions),
    only("[false]", "echo", kChat, "/v1/completions offers it"),
    only(R"([""])", "suffix", kCompletions, "nothing is filled in between two texts here"),
    refused("prompt_embeds", kCompletions, "is not offered: prompts are texts or token ids"),
    refused("input_ids", kChat, "is not offered: /v1/completions takes token ids – ask there"),
    taken("add_special_tokens", kCompletions | kTokenize),
    only("[false]", "add_special_tokens", kTalking, "templates write such tokens themselves"),
    only("[true]", "add_special_tokens", kEmbeddings, "vectors are of texts with such tokens"),
    refused("truncate_prompt_tokens", kCompletionsAndChat | kEmbeddings,
            "is not offered: prompts are never cut here – shorten the prompt"),
    ignored("truncation_side", kCompletionsAndChat | kEmbeddings, "prompts are never cut here"),
    ignored("truncation", kResponses, "prompts are never cut here"),
    only(R"(["error"])", "context_length_exceeded_behavior", kCompletionsAndChat,
         "prompts are never cut here"),
    refused("previous_response_id", kResponses, kStateless),
    refused("conversation", kResponses, kStateless),
    refused("previous_input_messages", kResponses, kStateless),
    refused("thread", kMessages, "is not offered: nothing is stored here – send all messages"),

    // What a chat template is told.
    taken("documents", kChat),
    taken("chat_template_kwargs", kTalking | kTokenize),
    refused("chat_template", kChat | kTokenize | kEmbeddings,
            "is not taken from requests: a model has its own"),
    taken("add_generation_prompt", kChat | kTokenize),
    taken("continue_final_message", kChat | kTokenize),
    only("[false]", "add_generation_prompt", kEmbeddings, "vectors are of \"input\""),
    only("[false]", "continue_final_message", kEmbeddings, "vectors are of \"input\""),
    only("[{}]", "chat_template_kwargs", kEmbeddings, "vectors are of \"input\""),
    taken("reasoning_effort", kChat | kTokenize),
    taken("reasoning", kChat | kResponses),
    taken("thinking", kChat | kMessages),
    taken("enable_thinking", kChat),
    taken("output_config", kMessages),
    only("[-1]", "thinking_token_budget", kCompletionsAndChat, kOnItsOwn),
    only("[true]", "include_reasoning", kChat | kResponses, "reasoning comes as it is"),
    only("[true]", "separate_reasoning", kChat, "reasoning comes as a part of its own"),
    only(R"(["parsed"])", "reasoning_format", kChat, "reasoning comes as a part of its own"),
    only("[true]", "stream_reasoning", kChat, "a stream has everything as it comes"),
    ignored("verbosity", kChat, "no template is told of it"),
    refused("personality", kResponses, "is not offered: models have no styles to choose from"),
    refused("task", kChat, "is not offered: say in a message what is to be done"),

    // Lengths, samples and sampling; parameters() has the others.
    taken("max_tokens", kCompletionsAndChat | kMessages),
    refused("max_tokens", kResponses, "is \"max_output_tokens\" in this dialect – rename it"),
    taken("max_completion_tokens", kChat),
    refused("max_completion_tokens", kCompletions, "is \"max_tokens\" here – rename it"),
    taken("max_output_tokens", kResponses),
    taken("n", kCompletionsAndChat),
    only("[1]", "n", kResponses | kMessages, "there is one answer in this dialect"),
    only("[1]", "samples", kResponses | kMessages, "there is one answer in this dialect"),
    refused("stop", kMessages, "is \"stop_sequences\" in this dialect – rename it"),
    taken("stop_sequences", kMessages),
    taken("stop_token_ids", kAll),
    taken("include_stop_str_in_output", kAll),
    taken("allowed_token_ids", kAll),
    taken("watermarking", kAll),
    only("[false]", "use_beam_search", kCompletionsAndChat, "a search has \"beams\""),
    only("[false]", "no_stop_trim", kCompletionsAndChat,
         "\"include_stop_str_in_output\" keeps a stop's text"),
    only(R"(["", []])", "stop_regex", kCompletionsAndChat, "\"stop\" takes texts"),
    only("[true]", "do_sample", kCompletionsAndChat,
         "\"temperature\" 0 takes the most likely token"),
    only("[0]", "top_a", kCompletionsAndChat, "the sampler has no such stage"),
    only("[1]", "tfs", kCompletionsAndChat, "the sampler has no such stage"),
    refused("repetition_detection", kCompletionsAndChat,
            "is not offered – \"dry_multiplier\" makes repetitions less likely"),
    refused("watermark", kCompletionsAndChat,
            "is not offered – \"watermark_delta\" marks an answer"),
    refused("custom_logit_processor", kCompletionsAndChat,
            "is not offered: nothing is run that a request brings – leave it out"),
    only("[{}]", "custom_params", kCompletionsAndChat,
         "a third party's parameters stand in \"params\""),
    only("[{}]", "vllm_xargs", kAll, "a third party's parameters stand in \"params\""),
    refused("lora_path", kCompletionsAndChat,
            "is not offered: adapters stand in the pipeline – choose one by \"adapter\""),
    refused("lora_path", kEmbeddings, "is not offered: vectors are of the base model"),

    // Forms and tools.
    taken("response_format", kCompletionsAndChat),
    taken("guided_json", kAll),
    taken("guided_regex", kAll),
    taken("guided_grammar", kAll),
    taken("guided_choice", kAll),
    taken("structured_outputs", kAll),
    taken("regex", kCompletionsAndChat),
    taken("ebnf", kCompletionsAndChat),
    taken("json_schema", kCompletions),
    ignored("guided_decoding_backend", kCompletionsAndChat, "there is one"),
    taken("text", kResponses),
    taken("tools", kTalking | kTokenize),
    taken("tool_choice", kTalking),
    ignored("tool_choice", kTokenize, "the template is given all tools"),
    taken("parallel_tool_calls", kChat | kResponses),
    ignored("tool_stream", kChat, "a stream has a call as it comes", "[true]"),
    ignored("max_tool_calls", kResponses, "nothing is called here"),
    only("[[]]", "functions", kChat, "it is deprecated – use \"tools\" and \"tool_choice\""),
    only(R"(["none", "auto"])", "function_call", kChat,
         "it is deprecated – use \"tools\" and \"tool_choice\""),
    only("[[]]", "mcp_servers", kMessages, "no server of tools is asked from here"),
    refused("container", kMessages, "is not offered: nothing is run here – leave it out"),
    refused("web_search_options", kChat, "is not offered: nothing is looked up – leave it out"),
    only("[false]", "enable_search", kChat, "nothing is looked up here"),
    only("[[]]", "plugins", kChat, "nothing is looked up or read here"),

    // What comes back, and how.
    taken("stream", kAll),
    taken("stream_options", kCompletionsAndChat),
    ignored("stream_options", kResponses, "a response always ends with its usage"),
    ignored("stream_interval", kCompletionsAndChat, "tokens are sent as they come"),
    ignored("usage", kChat, "it comes with every answer, in streams by \"stream_options\""),
    taken("logprobs", kCompletionsAndChat),
    only("[false]", "logprobs", kMessages, "other dialects have them"),
    only("[0]", "top_logprobs", kMessages, "other dialects have them"),
    only("[false]", "logprobs", kResponses, "\"top_logprobs\" and \"include\" ask for them"),
    taken("top_logprobs", kChat | kResponses),
    only("[0]", "top_logprobs", kCompletions, "\"logprobs\" is their number"),
    only("[false]", "prompt_logprobs", kAll,
         "/v1/completions scores a prompt with \"echo\" and \"logprobs\""),
    only("[[]]", "logprob_token_ids", kCompletionsAndChat, "the most likely tokens are reported"),
    taken("return_token_ids", kCompletionsAndChat),
    only("[false]", "return_token_ids", kResponses | kMessages, "chats and completions have them"),
    taken("return_tokens_as_token_ids", kCompletionsAndChat),
    taken("return_token_strs", kTokenize),
    taken("include", kResponses),
    taken("encoding_format", kEmbeddings),
    taken("dimensions", kEmbeddings),
    taken("skip_special_tokens", kDetokenize),
    ignored("skip_special_tokens", kAll, "special tokens give no text here", "[true]"),
    ignored("spaces_between_special_tokens", kAll, "special tokens give no text here"),
    only("[false]", "return_hidden_states", kCompletionsAndChat, "hidden states are not given out"),
    only("[false]", "return_routed_experts", kCompletionsAndChat, kNotShown),
    only("[0]", "routed_experts_start_len", kCompletionsAndChat, "experts are not told here"),
    only("[0]", "routed_experts_prompt_start", kCompletionsAndChat, "experts are not told here"),
    only("[false]", "return_cached_tokens_details", kCompletionsAndChat,
         "\"usage\" says how many tokens were found computed"),
    only("[false]", "return_spec_tokens_details", kCompletionsAndChat, "/metrics has drafts"),
    only("[false]", "return_prompt_token_ids", kChat, "\"return_token_ids\" has them too"),
    only("[false]", "return_meta_info", kChat, kNotShown),
    only("[false]", "return_input_ids_in_sglext", kChat, "\"return_token_ids\" has them"),
    only("[false]", "return_output_ids_in_sglext", kChat, "\"return_token_ids\" has them"),
    only("[false]", "return_sampling_mask", kChat, kNotShown),
    only("[false]", "return_flat_raw_output_top_logprobs", kChat, "\"top_logprobs\" has them"),
    ignored("return_flat_raw_top_logprobs_b64", kChat, "no flat list is given", "[true]"),
    only("[\"selected\"]", "sampling_logprobs_mode", kChat, "those of chosen tokens are reported"),
    only("[false]", "return_weight_versions", kCompletionsAndChat, "weights have one version"),
    only("[false]", "return_token_offsets", kCompletionsAndChat, kNotShown),
    only("[false]", "return_prompt_text", kChat, kNotShown),
    only("[false]", "return_progress", kCompletionsAndChat, kNotShown),
    only("[false]", "timings_per_token", kCompletionsAndChat, "GET /v1/engine/steps has times"),
    only("[false]", "enable_response_messages", kResponses, kNotShown),
    only(R"([["text"]])", "modalities", kChat, kMedia),
    refused("audio", kChat, "is not offered: answers are texts – leave it out"),
    ignored("image", kResponses, kMedia),
    ignored("media_io_kwargs", kChat | kResponses | kTokenize | kEmbeddings, kMedia),
    ignored("mm_processor_kwargs", kSampled | kTokenize | kEmbeddings, kMedia),
    ignored("mm_payload", kAll, kMedia),
    only("[false]", "return_mm_kwargs", kAll, kMedia),
    ignored("images_config", kCompletionsAndChat, kMedia),
    ignored("video_config", kChat, kMedia),
    ignored("max_dynamic_patch", kChat, kMedia),
    ignored("min_dynamic_patch", kChat, kMedia),
    ignored("use_audio_in_video", kChat, kMedia, "[false]"),
    only(R"(["float32"])", "embed_dtype", kEmbeddings, "vectors have 32 bits"),
    only(R"(["native", "little"])", "endianness", kEmbeddings, "the first byte is the lowest"),
    only(R"(["do_not_pad"])", "padding", kEmbeddings, "texts are not padded"),
    refused("use_activation", kEmbeddings, "is not offered: the model says how vectors are made"),
    refused("embed_override_token_id", kEmbeddings, "is not offered: vectors are of the input"),
    refused("embed_overrides", kEmbeddings, "is not offered: vectors are of the input"),

    // Who asks, and how it is served.
    taken("priority", kAll),
    only("[0]", "priority", kEmbeddings, "vectors come in their turn"),
    taken("cache_salt", kAll),
    refused("cache_salt", kEmbeddings, "is not offered: nothing is kept of texts for vectors"),
    refused("extra_key", kSampled, "is not offered – \"cache_salt\" keeps caches apart"),
    taken("metadata", kResponses),
    ignored("metadata", kCompletionsAndChat | kMessages | kEmbeddings, kOtherService),
    ignored("client_metadata", kAll, kOtherService),
    ignored("user", kAll | kEmbeddings, kNobody),
    ignored("safety_identifier", kAll, kNobody),
    ignored("user_profile_id", kMessages, kNobody),
    ignored("workspace_id", kMessages, kNobody),
    ignored("request_id", kAll | kEmbeddings, kNames),
    ignored("rid", kAll | kEmbeddings, kNames),
    ignored("session_id", kAll, kNames),
    ignored("chat_id", kChat, kNames),
    ignored("custom_labels", kCompletionsAndChat, "figures have the labels of /metrics"),
    ignored("prompt_cache_key", kAll, kCaching),
    ignored("prompt_cache_options", kAll, kCaching),
    ignored("prompt_cache_retention", kAll, kCaching),
    ignored("cache_control", kAll, kCaching),
    ignored("cache_prompt", kCompletionsAndChat, kCaching, "[true]"),
    ignored("prediction", kChat, "drafts are the pipeline's affair"),
    ignored("service_tier", kAll, kOneTier),
    ignored("speed", kMessages, kOneTier, R"(["standard"])"),
    ignored("keep_alive", kCompletionsAndChat, "the server's owner says when models go"),
    only("[false]", "store", kCompletionsAndChat, "nothing is stored here"),
    ignored("store", kResponses, "nothing is stored here, as the response says", "[false]"),
    only("[false]", "background", kResponses, "nothing is stored here"),
    ignored("background_options", kResponses, "nothing runs in the background"),
    ignored("context_management", kResponses | kMessages, "messages are taken as they are sent"),
    refused("compaction", kMessages, "is not offered: ask for a summary in a message"),
    only("[false]", "safe_prompt", kChat, "nothing is added to a conversation"),
    refused("moderation", kChat | kResponses, "is not offered: nothing is judged here"),
    only(R"(["global"])", "inference_geo", kMessages, "inference runs where this server does"),
    ignored("diagnostics", kMessages, kNotShown),
    ignored("access_programs", kResponses, kOtherService),
    ignored("billing_policy", kMessages, kOtherService),
    ignored("fallbacks", kMessages, kOtherService),
    ignored("fallback_credit_token", kMessages, kOtherService),
    ignored("betas", kMessages, kOtherService),
    ignored("anthropic_beta", kMessages, kOtherService),
    ignored("anthropic_version", kMessages, kOtherService),
    ignored("provider", kChat, kOtherService),
    ignored("models", kChat, kOtherService),
    ignored("route", kChat, kOtherService),
    only("[[]]", "transforms", kChat, "messages are taken as they are sent"),
    only("[{}]", "extra_body", kAll, "its members belong into the body itself"),
    only("[{}]", "extra_headers", kAll, "they belong into the head"),
    only("[{}]", "session_params", kCompletionsAndChat, "nothing is stored here"),
    taken("kv_transfer_params", kAll),
    taken("cache_hit_threshold", kCompletionsAndChat),
    only("[{}]", "ec_transfer_params", kAll, "no encoder's output is taken here"),
    taken("bootstrap_host", kCompletionsAndChat),
    taken("bootstrap_port", kCompletionsAndChat),
    taken("bootstrap_room", kCompletionsAndChat),
    refused("bootstrap_host", kResponses, kNoRoom),
    refused("bootstrap_port", kResponses, kNoRoom),
    refused("bootstrap_room", kResponses, kNoRoom),
    taken("routed_dp_rank", kAll),
    taken("data_parallel_rank", kAll),
    only("[0]", "disagg_prefill_dp_rank", kSampled, "K/V is fetched from where the request says"),

    // Messages of chats. What answers have may be sent back.
    taken("role", kMessage | kItem),
    taken("content", kMessage | kItem),
    taken("name", kMessage | kItem),
    taken("tool_calls", kMessage),
    taken("tool_call_id", kMessage),
    taken("reasoning_content", kMessage),
    taken("reasoning", kMessage),
    taken("thinking", kMessage),
    only(R"(["", [], {}])", "refusal", kMessage, "what an answer says is its content"),
    only(R"(["", [], {}])", "audio", kMessage, kMedia),
    only(R"(["", [], {}])", "function_call", kMessage, "use \"tool_calls\""),
    only("[[]]", "images", kMessage, kMedia),
    only("[false]", "prefix", kMessage, "\"continue_final_message\" goes on with an answer"),
    only("[false]", "partial", kMessage, "\"continue_final_message\" goes on with an answer"),
    ignored("annotations", kMessage, "the content says it all", "[[]]"),
    ignored("parsed", kMessage, "the content says the same"),
    ignored("cache_control", kMessage, kCaching),
    ignored("provider_specific_fields", kMessage, kOtherService, "[{}]"),
    ignored("reasoning_details", kMessage, "\"reasoning\" says the same", "[[]]"),
    ignored("reasoning_items", kMessage, "\"reasoning\" says the same", "[[]]"),
    ignored("thinking_blocks", kMessage, "\"reasoning\" says the same", "[[]]"),
    echoed("id", kMessage | kItem),
    echoed("status", kMessage | kItem),
    echoed("phase", kMessage | kItem),
    echoed("index", kMessage),
    echoed("finish_reason", kMessage),
    echoed("stop_reason", kMessage),
    echoed("token_ids", kMessage),
    only(R"(["message"])", "type", kMessage, "a conversation has nothing else"),

    // Items of responses.
    taken("type", kItem | kTool | kThinking),
    taken("call_id", kItem),
    taken("arguments", kItem),
    taken("output", kItem),
    taken("summary", kItem),
    taken("encrypted_content", kItem),
    ignored("parsed_arguments", kItem, "the arguments say the same"),
    ignored("namespace", kItem, "tools are known by their names"),
    ignored("caller", kItem, "the model calls", R"([{"type": "direct"}])"),
    echoed("created_by", kItem),

    // Anthropic's tools.
    taken("name", kTool),
    taken("description", kTool),
    taken("input_schema", kTool),
    taken("strict", kTool),
    ignored("cache_control", kTool, kCaching),
    ignored("input_examples", kTool, "no template shows them"),
    ignored("eager_input_streaming", kTool, "a stream has a call as it comes", "[true]"),
    ignored("defer_loading", kTool, "the template is given all tools", "[false]"),
    ignored("allowed_callers", kTool, "the model calls", R"([["direct"]])"),

    // Settings that are objects.
    taken("include_usage", kStreamOptions),
    taken("continuous_usage_stats", kStreamOptions),
    ignored("include_obfuscation", kStreamOptions, "events are as long as they are"),
    taken("effort", kReasoning | kConfig),
    taken("enabled", kReasoning),
    ignored("summary", kReasoning, "reasoning comes as it is"),
    ignored("generate_summary", kReasoning, "reasoning comes as it is"),
    ignored("context", kReasoning, "templates say what they keep of it", R"(["auto"])"),
    ignored("max_tokens", kReasoning, kOnItsOwn),
    only("[false]", "exclude", kReasoning, "reasoning comes as it is"),
    only(R"(["standard"])", "mode", kReasoning, "there is one"),
    taken("format", kText | kConfig),
    ignored("verbosity", kText, "no template is told of it"),
    ignored("budget_tokens", kThinking, kOnItsOwn),
    ignored("display", kThinking, "reasoning comes as it is"),
    ignored("clear_thinking", kThinking, "templates say what they keep of it"),
    ignored("task_budget", kConfig, "how much a model does is its own affair"),
};

}  // namespace

std::span<const FieldRule> field_rules() {
  return kRules;
}

}  // namespace tenon::api
