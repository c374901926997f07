#include "tests/fake_device/rig/rig.h"

#include <algorithm>

#include "core/engine/records/digest.h"

namespace tenon {
namespace {

class LetterDecoder final : public TextDecoder {
 public:
  void push(TokenId token, std::string& text) override {
    text += static_cast<char>('a' + token % 26);
  }
  void finish(std::string&) override {}
};

uint32_t block_tokens_of(const RigOptions& options) {
  return options.kv_cache == "naive" ? options.context_tokens : options.block_tokens;
}

}  // namespace

void RigOptions::stream(uint32_t sinks, uint32_t window, uint32_t stride) {
  const auto whole = [this](uint32_t tokens) {
    return (tokens + block_tokens - 1) / block_tokens * block_tokens;
  };
  kv_cache = "streaming";
  kv_cache_options = "sink_tokens=" + std::to_string(sinks) +
                     " window_tokens=" + std::to_string(window) +
                     " stride_tokens=" + std::to_string(stride);
  sink_tokens = whole(sinks);
  kept_tokens = whole(window);
  stride_tokens = whole(stride);
}

EngineOptions usual_engine_options() {
  EngineOptions options;
  options.logits_digest = options.check_kv = true;
  const char* ahead = std::getenv("TENON_TEST_PLAN_AHEAD");
  options.plan_ahead = ahead != nullptr && std::string_view(ahead) == "1";
  return options;
}

Rig::Rig(RigOptions options)
    : options_(std::move(options)),
      scheduler_plugin_("scheduler", options_.scheduler, options_.scheduler_options),
      kv_plugin_("kv_cache", options_.kv_cache, options_.kv_cache_options),
      sampler_plugin_("sampler", options_.sampler, options_.sampler_options),
      sampler_(options_.own_sampler != nullptr ? options_.own_sampler : sampler_plugin_.get()) {
  for (const std::string* error :
       {&scheduler_plugin_.error(), &kv_plugin_.error(), &sampler_plugin_.error()}) {
    if (!error->empty()) throw std::runtime_error(*error);
  }
  bind_kv_cache();
  device_ = make_device(options_.model(), shape_, group_geometry_.data());
  if (options_.second_model) make_second_model();

  EngineParts parts;
  parts.scheduler =
      options_.own_scheduler != nullptr ? options_.own_scheduler : scheduler_plugin_.get();
  parts.kv_cache = kv_;
  parts.eviction = eviction();
  parts.sampler = &sampler_;
  parts.drafter = make_drafter();
  parts.draft_runner = runner_.get();
  parts.verify_by_rejection = options_.verify_by_rejection;
  parts.draft_trees = options_.draft_trees;
  if (options_.tiers) {
    TierWorld world = tier_world();
    std::vector<std::unique_ptr<TierStore>> stores = options_.tiers(world.text);
    tiers_ =
        std::make_unique<Tiers>(std::move(world), std::move(stores), options_.tier_budget_bytes);
  }
  if (options_.transfer) transfer_ = options_.transfer(tier_world());
  parts.tiers = tiers_.get();
  parts.transfer = transfer_.get();
  parts.executor = device_.get();
  parts.shape = &shape_;
  parts.geometry = geometry();
  parts.limits = {options_.max_sequences, options_.max_batch_tokens, options_.context_tokens};
  parts.clock = options_.own_clock != nullptr ? options_.own_clock : &clock_;
  parts.eos_tokens = options_.eos_tokens;
  if (options_.text) parts.text = [](const Request&) { return std::make_unique<LetterDecoder>(); };
  if (!options_.token_bytes.empty()) {
    parts.grammar_vocabulary = [bytes = options_.token_bytes] {
      return grammar::Vocabulary::make(bytes);
    };
  }
  parts.sampler_params = options_.sampler_params;
  parts.scheduler_name = options_.scheduler;
  parts.kv_cache_name = options_.kv_cache;
  parts.sampler_name = options_.sampler;
  parts.drafter_name = "toy";
  if (parts.drafter != nullptr) bind_drafter(parts);
  engine_ = std::make_unique<Engine>(std::move(parts), options_.engine);
}

void Rig::add_group(const KvGroup& group, uint32_t block_tokens) {
  KvGroupGeometry geometry;
  geometry.block_tokens = block_tokens;
  geometry.blocks = options_.kv_tokens / block_tokens;
  geometry.bytes_per_token = 8;
  geometry.swap_blocks = options_.swap_tokens / block_tokens;
  groups_.push_back(group);
  group_geometry_.push_back(geometry);
}

void Rig::bind_kv_cache() {
  const uint32_t block_tokens = block_tokens_of(options_);
  KvGroup group;
  group.layers = group.kv_heads = group.k_dim = group.v_dim = 1;
  group.window_tokens = options_.window_tokens;
  if (options_.attends) add_group(group, block_tokens);
  if (options_.attends && options_.second_window) {
    group.window_tokens = *options_.second_window;
    add_group(group, block_tokens);
  }
  if (options_.recurrent) {
    KvGroup states;
    states.kind = KvKind::recurrent;
    states.layers = 1;
    states.state_bytes = 8;
    add_group(states, 1);
    group_geometry_.back().dtype = DType::u8;
    if (options_.state_slots) group_geometry_.back().blocks = *options_.state_slots;
  }
  shape_.layer_count = ToyModel::kLayers;
  shape_.hidden = ToyModel::kHidden;
  shape_.vocabulary = options_.vocabulary;
  shape_.context_tokens = options_.context_tokens;
  shape_.group_count = static_cast<uint32_t>(groups_.size());
  if (options_.second_model) {
    group.owner = KvOwner::draft;
    group.window_tokens = options_.second_model->window_tokens;
    add_group(group, block_tokens);
  }
  shape_.groups = groups_.data();
  ModelShape joint = shape_;
  joint.group_count = geometry().group_count;
  kv_ = options_.own_kv_cache != nullptr ? options_.own_kv_cache : kv_plugin_.get();
  Status bound = kv_->bind(joint, geometry());
  if (!bound.ok()) throw std::runtime_error(std::string(bound.message()));
}

const KvEviction* Rig::eviction() const {
  auto* ask = kv_plugin_.handle().descriptor()->extension;
  if (ask == nullptr) return nullptr;
  const auto* stated =
      static_cast<const KvEviction*>(ask(kv_plugin_.handle().instance(), kKvEviction));
  return stated != nullptr && stated->first < options_.context_tokens ? stated : nullptr;
}

std::unique_ptr<FakeDevice> Rig::make_device(const ToyModel& model, const ModelShape& shape,
                                             const KvGroupGeometry* groups) {
  auto device = std::make_unique<FakeDevice>(model);
  device->host_workers = options_.workers;
  ExecutorSetup setup;
  setup.shape = &shape;
  setup.geometry = geometry();
  setup.geometry.group_count = shape.group_count;
  setup.geometry.groups = groups;
  Status loaded = device->load(setup);
  if (!loaded.ok()) throw std::runtime_error(std::string(loaded.message()));
  return device;
}

void Rig::make_second_model() {
  second_shape_ = shape_;
  second_shape_.group_count = 1;
  second_shape_.groups = &groups_.back();
  second_device_ = make_device(*options_.second_model, second_shape_, &group_geometry_.back());
  DraftRunnerParts parts;
  parts.executor = second_device_.get();
  parts.shape = &second_shape_;
  parts.geometry = geometry();
  parts.geometry.group_count = 1;
  parts.geometry.groups = &group_geometry_.back();
  parts.first_group = shape_.group_count;
  parts.max_rows = options_.max_batch_tokens;
  parts.max_sequences = options_.max_sequences;
  runner_ = std::make_unique<DraftRunner>(parts);
}

// What the toy model's K/V follow from, beside tokens.
TierWorld Rig::tier_world() const {
  TierWorld world;
  world.block_tokens = block_tokens_of(options_);
  world.text = "toy";
  for (GroupId id = 0; id < shape_.group_count; ++id) {
    const bool recurs = groups_[id].kind == KvKind::recurrent;
    const uint64_t bytes = group_geometry_[id].block_tokens * sizeof(uint64_t);
    world.groups.push_back({id, bytes, recurs});
    if (!recurs) world.block_tokens = group_geometry_[id].block_tokens;
    world.text += " " + std::to_string(bytes);
  }
  if (!options_.attends) world.block_tokens = 16;  // as managers without a fact have it
  return world;
}

Drafter* Rig::make_drafter() {
  if (options_.drafter_plugin.empty()) return options_.drafter;
  drafter_plugin_ = std::make_unique<LoadedPlugin<Drafter>>(
      "drafter", options_.drafter_plugin, options_.drafter_options, runner_.get());
  if (!drafter_plugin_->error().empty()) throw std::runtime_error(drafter_plugin_->error());
  Drafter& made = **drafter_plugin_;
  return options_.around_drafter ? options_.around_drafter(made) : &made;
}

void Rig::bind_drafter(EngineParts& parts) {
  std::vector<LayerId> layers(shape_.layer_count + 1);
  HiddenLayersOut wanted;
  wanted.layers = layers;
  Status bound = parts.drafter->bind(shape_, wanted);
  if (!bound.ok()) throw std::runtime_error(std::string(bound.message()));
  layers.resize(wanted.count);
  parts.hidden_layers = layers;
  parts.hidden_drawn_only = wanted.drawn_only;
  parts.prompt_states = options_.prompt_states;
}

RequestId Rig::submit(Request request) {
  auto sink = std::make_shared<ResultSink>();
  request.sink = sink;
  Result<RequestId> id = engine_->submit(std::move(request));
  EXPECT_TRUE(id.ok()) << id.status().message();
  if (!id.ok()) return 0;
  EXPECT_EQ(*id, sinks_.size() + 1);
  sinks_.push_back(std::move(sink));
  return *id;
}

void Rig::run(uint64_t max_steps) {
  Status status = engine_->run_until_idle(max_steps);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(sampler_.complaint(), "");
  expect_empty();
}

KvUsage Rig::usage() const {
  KvUsage usage;
  EXPECT_TRUE(kv_->usage(0, usage).ok());
  return usage;
}

void Rig::expect_empty() {
  const KvUsage usage = this->usage();
  EXPECT_EQ(usage.free_tokens, usage.total_tokens) << "blocks were not given back";
  EXPECT_EQ(usage.used_tokens, 0u);
  EXPECT_EQ(usage.reserved_tokens, 0u);
  EXPECT_EQ(usage.swapped_tokens, 0u);
}

Request greedy_request(std::vector<TokenId> prompt, uint32_t max_tokens) {
  Request request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0.0f;
  return request;
}

Expected oracle(const ToyModel& model, const Request& request, uint32_t sample,
                uint32_t context_tokens, std::span<const TokenId> eos) {
  LoadedPlugin<Sampler> sampler("sampler", "standard");
  (void)sampler->begin(0, request.sampling, kNoSeq);
  Expected expected;
  std::vector<TokenId> history = request.prompt;
  const size_t limit = request.max_tokens == 0
                           ? context_tokens
                           : std::min<size_t>(history.size() + request.max_tokens, context_tokens);
  while (history.size() < limit) {
    const std::vector<float> logits = model.next_logits(history);
    SampleRow row;
    row.seq = 0;
    row.logits = logits.data();
    row.vocabulary = model.vocabulary;
    row.history = history;
    row.prompt_tokens = static_cast<uint32_t>(request.prompt.size());
    row.key = {request.sampling.seed, sample, static_cast<uint32_t>(history.size())};
    SampleResult result;
    (void)sampler->sample({&row, 1}, {&result, 1});
    expected.digest = extend_digest(expected.digest, logits.data(), logits.size());
    expected.ids.push_back(result.token);
    history.push_back(result.token);
    const bool ends =
        !request.ignore_eos && std::find(eos.begin(), eos.end(), result.token) != eos.end();
    if (ends) break;
  }
  return expected;
}

Status ToyDrafter::offer(std::span<const DraftRequest> requests,
                         std::span<uint32_t> offered) noexcept {
  for (size_t i = 0; i < requests.size(); ++i) {
    offered[i] = std::min(tokens_, requests[i].max_tokens);
  }
  return {};
}

Status ToyDrafter::draft(std::span<const DraftRequest> requests,
                         std::span<DraftOut> drafts) noexcept {
  for (size_t i = 0; i < requests.size(); ++i) {
    std::vector<TokenId> history(requests[i].history.begin(), requests[i].history.end());
    for (uint32_t d = 0; d < requests[i].max_tokens; ++d) {
      const std::vector<float> logits = model_.next_logits(history);
      auto token =
          static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
      const bool wrong = wrong_every_ != 0 && (history.size() * 7 + d) % wrong_every_ == 0;
      if (wrong) token = static_cast<TokenId>((static_cast<uint32_t>(token) + 1) % logits.size());
      drafts[i].tokens[drafts[i].count++] = token;
      history.push_back(token);
    }
  }
  return {};
}

Status ToyDrafter::accept(SeqId, std::span<const TokenId>, uint32_t drafted,
                          uint32_t accepted) noexcept {
  drafted_ += drafted;
  accepted_ += accepted;
  return {};
}

uint32_t TestRandom::below(uint32_t bound) {
  state_ += 0x9e3779b97f4a7c15u;
  uint64_t x = (state_ ^ (state_ >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return static_cast<uint32_t>((x >> 33) % bound);
}

std::vector<TokenId> TestRandom::tokens(uint32_t count, uint32_t vocabulary) {
  std::vector<TokenId> out(count);
  for (TokenId& token : out) token = static_cast<TokenId>(below(vocabulary));
  return out;
}

}  // namespace tenon
