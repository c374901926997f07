#include "core/config/pipeline_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "core/config/schema.h"
#include "tests/support/folders.h"
#include "tests/support/temporary_folder.h"

namespace tenon {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

using Overrides = std::vector<std::string>;

Result<PipelineConfig> parse(const std::string& text, const Overrides& overrides = {}) {
  return parse_pipeline_config("format = 1\n" + text, "p.toml", "/conf", overrides);
}
PipelineConfig parsed(const std::string& text, const Overrides& overrides = {}) {
  auto config = parse(text, overrides);
  EXPECT_TRUE(config.ok()) << config.status().message();
  return config.ok() ? *std::move(config) : PipelineConfig();
}
std::string error_of(const std::string& text, const Overrides& overrides = {}) {
  const auto config = parse(text, overrides);
  return config.ok() ? "" : std::string(config.status().message());
}

TEST(PipelineConfig, has_defaults_for_what_is_not_said) {
  const PipelineConfig config = parsed("");
  EXPECT_EQ(config.executor.value, "cpu");
  EXPECT_EQ(config.threads.value, std::nullopt);
  EXPECT_EQ(config.scheduler.plugin.value, "continuous");
  EXPECT_EQ(config.kv_cache.plugin.value, "paged");
  EXPECT_EQ(config.attention.plugin.value, "auto");
  EXPECT_EQ(config.linear.plugin.value, "auto");
  EXPECT_EQ(config.sampler.plugin.value, "standard");
  EXPECT_FALSE(config.drafter);
  EXPECT_EQ(config.max_sequences.value, 32u);
  EXPECT_EQ(config.temperature.value, std::nullopt);
  EXPECT_EQ(config.max_sequences.origin.text(), "default");
}

TEST(PipelineConfig, reads_every_key_with_its_position) {
  const PipelineConfig config = parsed(R"(
[model]
path = "../models/tale"
[executor]
plugin = "ref"
threads = 3
isa = "avx512"
[plugins]
load = ["a.so", "/b/c.so"]
[kv_cache]
plugin = "paged"
memory = "1GiB"
dtype = "bf16"
block_tokens = 32
[limits]
context_tokens = 512
max_sequences = 8
max_batch_tokens = 100
[drafter]
plugin = "draft_model"
model = "small"
verify = "rejection"
[drafter.options]
max_draft_tokens = 4
[generation]
temperature = 0
top_k = 40
top_p = 0.9
max_tokens = 64
seed = 7
)");
  EXPECT_EQ(config.model_path.value, "/models/tale");
  EXPECT_EQ(config.model_path.origin.text(), "p.toml:4:1");
  EXPECT_EQ(config.draft_verify.value, DraftVerify::rejection);
  EXPECT_EQ(config.executor.value, "ref");
  EXPECT_EQ(config.threads.value, 3u);
  EXPECT_EQ(config.isa.value, NamedIsa::avx512);
  ASSERT_EQ(config.plugin_files.size(), 2u);
  EXPECT_EQ(config.plugin_files[0].value, "/conf/a.so");
  EXPECT_EQ(config.plugin_files[1].value, "/b/c.so");
  EXPECT_EQ(config.kv_memory_bytes.value, 1u << 30);
  EXPECT_EQ(config.kv_dtype.value, DType::bf16);
  EXPECT_EQ(config.kv_block_tokens.value, 32u);
  EXPECT_EQ(config.kv_block_tokens.origin.text(), "p.toml:15:1");
  EXPECT_EQ(config.context_tokens.value, 512u);
  EXPECT_EQ(config.max_sequences.value, 8u);
  EXPECT_EQ(config.max_batch_tokens.value, 100u);
  ASSERT_TRUE(config.drafter);
  EXPECT_EQ(config.drafter->plugin.value, "draft_model");
  ASSERT_EQ(config.drafter->options.size(), 1u);
  EXPECT_EQ(config.drafter->options[0].key, "max_draft_tokens");
  EXPECT_EQ(config.temperature.value, 0.0);
  EXPECT_EQ(config.top_k.value, 40u);
  EXPECT_EQ(config.top_p.value, 0.9);
  EXPECT_EQ(config.max_tokens.value, 64u);
  EXPECT_EQ(config.seed.value, 7u);
}

TEST(PipelineConfig, takes_every_number_of_sampling) {
  const PipelineConfig config =
      parsed("[generation]\nmin_p = 0.05\nmirostat = 2\nwatermark_key = 77\n");
  EXPECT_EQ(config.sampling[*find_sampling_key("min_p")].value, 0.05);
  EXPECT_EQ(config.sampling[*find_sampling_key("mirostat")].value, 2.0);
  EXPECT_EQ(config.sampling[*find_sampling_key("watermark_key")].value, 77.0);
  EXPECT_EQ(config.sampling[*find_sampling_key("xtc_threshold")].value, std::nullopt);
}

TEST(PipelineConfig, takes_numbers_within_the_range_of_their_key_alone) {
  for (const ConfigKey& key : config_keys()) {
    const NumberSpec spec = number_spec(key, key.spec.key);
    const std::string name(key.spec.key), is = name + " is ";
    std::vector<std::string> good, bad = {"nan", "true", "x", "\"\"", "[1]", "1e300"};
    if (key.spec.type == OptionType::integer) {
      good = {std::to_string(spec.least), std::to_string(spec.most)};
      bad.insert(bad.end(), {"2.0", std::to_string(spec.least - 1)});
      bad.push_back(spec.most < INT64_MAX ? std::to_string(spec.most + 1) : "9223372036854775808");
    } else if (key.spec.type == OptionType::real) {
      (spec.above_min ? bad : good).push_back(std::to_string(spec.min));
      (spec.below_max ? bad : good).push_back(std::to_string(spec.max));
      bad.insert(bad.end(), {std::to_string(spec.min - 1), std::to_string(spec.max + 1)});
    } else {
      continue;
    }
    for (const auto& value : good) EXPECT_EQ(error_of("", {name + "=" + value}), "") << value;
    for (const auto& value : bad) {
      EXPECT_THAT(error_of("", {name + "=" + value}), StartsWith("--set: " + is)) << value;
    }
  }
}

TEST(PipelineConfig, reads_how_plugins_are_guarded) {
  const PipelineConfig plain = parsed("");
  EXPECT_EQ(plain.guard.value, GuardLevel::off);
  EXPECT_EQ(plain.call_limit_ns.value, 10'000'000'000);
  EXPECT_EQ(plain.fallback_scheduler.value, "continuous");
  const PipelineConfig config = parsed(R"(
[engine]
guard = "isolate"
call_limit = "250ms"
process_memory = "2GiB"
[engine.fallback]
scheduler = "static"
)",
                                       {"engine.process_memory=128MiB"});
  EXPECT_EQ(config.guard.value, GuardLevel::isolate);
  EXPECT_EQ(config.call_limit_ns.value, 250'000'000);
  EXPECT_EQ(config.process_memory_bytes.value, uint64_t{128} << 20);
  EXPECT_EQ(config.fallback_scheduler.value, "static");
  EXPECT_THAT(error_of("[engine]\nguard = \"on\"\n"),
              HasSubstr("expected one of \"off\", \"checks\", \"isolate\""));
  EXPECT_THAT(error_of("[engine.fallback]\nsampler = \"standard\"\n"),
              HasSubstr("unknown key 'engine.fallback.sampler'"));
}

TEST(PipelineConfig, reads_how_long_a_scheduler_may_wait) {
  EXPECT_EQ(parsed("").wait_limit_ns.value, 60'000'000'000);
  EXPECT_EQ(parsed("[engine]\nwait_limit = '1.5s'\n").wait_limit_ns.value, 1'500'000'000);
  EXPECT_THAT(error_of("[engine]\nwait_limit = '2h'\n"), HasSubstr("engine.wait_limit"));
}

TEST(PipelineConfig, refuses_empty_texts) {
  for (const ConfigKey& key : config_keys()) {
    EXPECT_NE(error_of("", {std::string(key.spec.key) + "=\"\""}), "") << key.spec.key;
  }
  EXPECT_THAT(error_of("", {"scheduler.plugin=\"\""}),
              StartsWith("--set: scheduler.plugin is empty – it must be a text – "));
  EXPECT_THAT(error_of("[plugins]\nload = ['']\n"), HasSubstr("plugins.load has an empty text"));
}

TEST(PipelineConfig, names_the_flag_that_stands_for_a_key) {
  const std::vector<Setting> flags = {{"model.path", std::string("m"), {"--model", 0, 0}},
                                      {"executor.threads", int64_t{0}, {"--threads", 0, 0}}};
  const auto config = parse_pipeline_config("format = 1", "p.toml", "/", {}, flags);
  ASSERT_FALSE(config.ok());
  EXPECT_THAT(config.status().message(), StartsWith("--threads: executor.threads is 0"));
  const auto good = parse_pipeline_config("format = 1", "p.toml", "/", {"model.path=x"},
                                          {flags.begin(), flags.begin() + 1});
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(good->model_path.value, "m");
  EXPECT_EQ(good->model_path.origin.text(), "--model");
}

// What a failure prints can be pasted.
TEST(PipelineConfig, the_ranges_of_its_page_are_those_of_the_keys) {
  std::ifstream file(source_folder() + "/docs/formats/pipeline-toml.md");
  std::string line, section;
  std::vector<std::string> lines;
  while (std::getline(file, line)) {
    if (line.starts_with("[")) section = line.substr(1, line.find(']') - 1);
    lines.push_back(section + "." + line);
  }
  for (const ConfigKey& key : config_keys()) {
    if (key.spec.type != OptionType::integer || key.parameter != nullptr) continue;
    const std::string range = std::to_string(key.spec.min) + " … " + std::to_string(key.spec.max);
    const bool stands = std::any_of(lines.begin(), lines.end(), [&](const std::string& text) {
      return text.starts_with(std::string(key.spec.key) + " ") &&
             text.find("# " + range) != std::string::npos;
    });
    EXPECT_TRUE(stands) << key.spec.key << ": # " << range;
  }
}

TEST(PipelineConfig, takes_overrides_as_toml_or_as_bare_words) {
  const PipelineConfig config = parsed(
      "[scheduler]\nplugin = 'fifo'\n",
      {"scheduler.plugin=static", "limits.max_sequences=4", "kv_cache.memory=64MiB",
       "sampler.options.note=\"a b\"", "sampler.options.ratio=0.5", "limits.max_sequences=5"});
  EXPECT_EQ(config.scheduler.plugin.value, "static");
  EXPECT_EQ(config.scheduler.plugin.origin.text(), "--set");
  EXPECT_EQ(config.max_sequences.value, 5u);
  EXPECT_EQ(config.kv_memory_bytes.value, 64u << 20);
  EXPECT_EQ(config.sampler.options[0].value, SettingValue(std::string("a b")));
  EXPECT_EQ(config.sampler.options[1].value, SettingValue(0.5));
}

TEST(PipelineConfig, refuses_an_override_without_a_value) {
  EXPECT_EQ(error_of("", {"scheduler"}),
            "--set 'scheduler': expected key=value, such as scheduler.plugin=chunked");
  EXPECT_EQ(error_of("", {"=4"}),
            "--set '=4': expected key=value, such as scheduler.plugin=chunked");
}

TEST(PipelineConfig, does_not_let_an_override_smuggle_in_further_keys) {
  const PipelineConfig config = parsed("", {"scheduler.plugin='a'\nx = 1"});
  EXPECT_EQ(config.scheduler.plugin.value, "'a'\nx = 1");
}

TEST(PipelineConfig, suggests_the_nearest_table_and_key) {
  EXPECT_THAT(
      error_of("[schedluer]\nplugin = 'x'\n"),
      StartsWith("p.toml:2:2: unknown table 'schedluer'; did you mean 'scheduler'? (known: "));
  EXPECT_EQ(error_of("[executor]\nthread = 4\n"),
            "p.toml:3:1: unknown key 'executor.thread'; did you mean 'threads'? ([executor] has: "
            "plugin, threads, isa, deterministic, graph_memory, machine, weights, acceptance)");
  EXPECT_THAT(
      error_of("", {"limits.max_sequence=3"}),
      StartsWith("--set: unknown key 'limits.max_sequence'; did you mean 'max_sequences'?"));
  EXPECT_THAT(error_of("[scheduler.option]\na = 1\n"),
              HasSubstr("unknown key 'scheduler.option'; did you mean 'options'?"));
  EXPECT_THAT(error_of("modle = 1\n"),
              HasSubstr("p.toml:2:1: unknown key 'modle'; did you mean 'model'?"));
}

TEST(PipelineConfig, reports_an_unknown_table_once) {
  EXPECT_EQ(error_of("[zzz]\na = 1\nb = 2\n[zzz.deeper]\nc = 3\n").find("zzz"),
            error_of("[zzz]\na = 1\nb = 2\n[zzz.deeper]\nc = 3\n").rfind("zzz"));
}

TEST(PipelineConfig, says_what_a_value_should_have_been) {
  EXPECT_EQ(error_of("[executor]\nthreads = 'many'\n"),
            "p.toml:3:1: executor.threads is \"many\" – it must be a whole number from 1 to 512 "
            "threads, or \"auto\" – change it or leave it out");
  EXPECT_EQ(error_of("[executor]\nisa = 'avx1024'\n"),
            "p.toml:3:1: 'executor.isa' is the text \"avx1024\"; expected one of \"portable\", "
            "\"avx2\", \"avx_vnni\", \"avx512\", \"avx512_vnni\", \"avx512_bf16\", \"neon\", "
            "\"neon_dotprod\", \"neon_i8mm\", \"neon_bf16\", or \"auto\"");
  EXPECT_THAT(error_of("[limits]\nmax_sequences = 0\n"),
              HasSubstr("max_sequences is 0 – it must be a whole number from 1 to 4096 sequences"));
  EXPECT_THAT(error_of("[limits]\nmax_sequences = 'auto'\n"),
              HasSubstr("is \"auto\" – it must be a whole number from 1 to 4096 sequences –"));
  EXPECT_THAT(error_of("[kv_cache]\nmemory = '1 GB'\n"), HasSubstr("expected a size from 1B"));
  EXPECT_THAT(error_of("[plugins]\nload = 'a.so'\n"),
              HasSubstr("'plugins.load' is the text \"a.so\"; expected a list of plugin files"));
  EXPECT_THAT(error_of("scheduler = 'chunked'\n"),
              HasSubstr("'scheduler' is a table, not a key (it has: plugin, options)"));
}

TEST(PipelineConfig, reports_all_faults_at_once) {
  const std::string message =
      error_of("[executor]\nthreads = 0\n[nonsense]\n[limits]\nmax_sequences = -1\n", {"x=1"});
  for (const char* part : {"p.toml:3:1", "unknown table 'nonsense'", "p.toml:6:1", "--set"}) {
    EXPECT_THAT(message, HasSubstr(part));
  }
}

TEST(PipelineConfig, leads_to_the_place_of_a_syntax_error) {
  EXPECT_THAT(error_of("[executor]\nthreads = = 4\n"), StartsWith("p.toml:3:11: not TOML: "));
}

TEST(PipelineConfig, refuses_kinds_of_values_it_does_not_use) {
  EXPECT_THAT(error_of("[executor]\nthreads = 2020-01-01\n"),
              HasSubstr("the value of 'executor.threads' is a date, a time or a mixed list"));
  EXPECT_THAT(error_of("[scheduler]\noptions.a.b = 1\n"),
              HasSubstr("'scheduler.options.a' is a table; options are single values"));
  EXPECT_THAT(error_of("'a.b' = 1\n"), HasSubstr("the key \"a.b\" is no plain word"));
}

TEST(PipelineConfig, needs_its_format) {
  const auto none = parse_pipeline_config("", "p.toml", "/", {});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().message(),
            "p.toml: it has no 'format'; add 'format = 1' as its first line");
  const auto newer = parse_pipeline_config("format = 2", "p.toml", "/", {});
  ASSERT_FALSE(newer.ok());
  EXPECT_EQ(newer.status().message(),
            "p.toml:1:1: 'format' is the integer 2; this program reads 1");
}

TEST(PipelineConfig, gives_options_only_to_a_drafter_that_is_there) {
  EXPECT_EQ(
      error_of("[drafter.options]\nk = 1\n"),
      "p.toml:3:1: 'drafter.options.k' is set, but there is no drafter; set drafter.plugin too");
}

TEST(PipelineConfig, has_no_say_about_drafts_that_nobody_makes) {
  EXPECT_EQ(error_of("[drafter]\nverify = 'rejection'\n"),
            "p.toml:3:1: 'drafter.verify' is set, but there is no drafter; set drafter.plugin too");
  const std::string text = "[drafter]\nplugin = 'ngram'\nverify = 'rejection'\n";
  EXPECT_EQ(parsed(text, {"drafter.plugin=suffix"}).draft_verify.value, DraftVerify::rejection);
  EXPECT_EQ(parsed(text, {"drafter.plugin=none"}).dropped_options.size(), 1u);
}

TEST(PipelineConfig, prompts_and_single_rows_may_have_attention_kernels_of_their_own) {
  const std::string text =
      "[attention]\nplugin = 'one'\n"
      "prefill = {plugin = 'two', options = {tile = 4}}\n"
      "decode = {plugin = 'three'}\n";
  const PipelineConfig config = parsed(text);
  EXPECT_EQ(config.attention.plugin.value, "one");
  ASSERT_TRUE(config.attention_prefill && config.attention_decode);
  EXPECT_EQ(config.attention_prefill->plugin.value, "two");
  EXPECT_EQ(config.attention_prefill->plugin.origin.text(), "p.toml:4:12");
  ASSERT_EQ(config.attention_prefill->options.size(), 1u);
  EXPECT_EQ(config.attention_prefill->options[0].key, "tile");
  EXPECT_EQ(config.component("attention.decode")->plugin.value, "three");
  EXPECT_FALSE(parsed(text, {"attention.decode.plugin=none"}).attention_decode);
  EXPECT_FALSE(parsed("[attention]\nplugin = 'one'\n").attention_prefill);
  EXPECT_TRUE(parsed(text, {"attention.prefill.plugin=four"}).attention_prefill->options.empty());
}

TEST(PipelineConfig, faults_inside_an_attention_kernel_of_its_own_are_named) {
  EXPECT_EQ(error_of("[attention.decode.options]\nk = 1\n"),
            "p.toml:3:1: 'attention.decode.options.k' is set, but there is no such kernel; set "
            "attention.decode.plugin too");
  EXPECT_THAT(error_of("[attention.prefill]\nplugn = 'two'\n"),
              HasSubstr("unknown key 'attention.prefill.plugn'; did you mean 'plugin'"));
  EXPECT_THAT(error_of("[attention.prefil]\nplugin = 'two'\n"),
              HasSubstr("did you mean 'prefill'"));
}

TEST(PipelineConfig, adapters_have_names_and_folders) {
  const PipelineConfig config =
      parsed("[adapters]\npoems = 'a/poems'\nlegal = '/b'\n", {"adapters.extra-1=here"});
  ASSERT_EQ(config.adapters.size(), 3u);
  EXPECT_EQ(config.adapters[0].name, "extra-1");
  EXPECT_EQ(config.adapters[0].path.value, "here");
  EXPECT_EQ(config.adapters[1].name, "legal");
  EXPECT_EQ(config.adapters[1].path.value, "/b");
  EXPECT_EQ(config.adapters[2].path.value, "/conf/a/poems");
  EXPECT_EQ(config.adapters[2].path.origin.text(), "p.toml:3:1");
}

TEST(PipelineConfig, an_adapter_is_taken_away_by_none) {
  EXPECT_EQ(parsed("[adapters]\npoems = 'a'\n", {"adapters.poems=none"}).adapters.size(), 0u);
}

TEST(PipelineConfig, an_adapter_needs_a_folder_and_a_name_of_its_own) {
  EXPECT_THAT(
      error_of("[adapters]\npoems = ''\n"),
      HasSubstr("'adapters.poems' is the text \"\"; expected the path of an adapter's folder"));
  EXPECT_THAT(error_of("[adapters]\npoems = 3\n"), HasSubstr("'adapters.poems' is the integer 3"));
  EXPECT_THAT(error_of("[adapters]\nnone = 'a'\n"), HasSubstr("which means the base model"));
  EXPECT_THAT(error_of("[adapters.poems]\npath = 'a'\n"), HasSubstr("adapters.poems"));
}

TEST(PipelineConfig, has_no_drafter_when_it_is_none) {
  const std::string drafter = "[drafter]\nplugin = 'ngram'\n[drafter.options]\nk = 1\n";
  EXPECT_TRUE(parsed(drafter).drafter);
  EXPECT_FALSE(parsed(drafter, {"drafter.plugin=none"}).drafter);
}

TEST(PipelineConfig, leaves_options_behind_with_the_plugin_they_were_for) {
  const std::string text = "[scheduler]\nplugin = 'chunked'\n[scheduler.options]\nchunk = 8\n";
  EXPECT_EQ(parsed(text).scheduler.options.size(), 1u);
  EXPECT_EQ(parsed(text, {"scheduler.plugin=chunked"}).scheduler.options.size(), 1u);
  const PipelineConfig other = parsed(text, {"scheduler.plugin=static"});
  EXPECT_TRUE(other.scheduler.options.empty());
  ASSERT_EQ(other.dropped_options.size(), 1u);
  EXPECT_EQ(other.dropped_options[0].origin.text(), "p.toml:5:1");
  const PipelineConfig with_own =
      parsed(text, {"scheduler.options.rows=4", "scheduler.plugin=static"});
  ASSERT_EQ(with_own.scheduler.options.size(), 1u);
  EXPECT_EQ(with_own.scheduler.options[0].key, "rows");
}

TEST(PipelineConfig, extends_another_file_key_by_key) {
  const TemporaryFolder folder;
  folder.write_file("base/base.toml",
                    "format = 1\n[model]\npath = \"m\"\n[limits]\nmax_sequences = 4\n"
                    "max_batch_tokens = 64\n[sampler.options]\na = 1\nb = 2\n");
  const std::string top =
      folder.write_file("top.toml",
                        "format = 1\nextends = \"base/base.toml\"\n[limits]\nmax_sequences = 8\n"
                        "[sampler.options]\nb = 3\n");
  const auto config = load_pipeline_config(top, {"limits.max_batch_tokens=128"});
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config->path, top);
  EXPECT_EQ(config->model_path.value, folder.path("base/m"));
  EXPECT_EQ(config->max_sequences.value, 8u);
  EXPECT_EQ(config->max_sequences.origin.text(), top + ":4:1");
  EXPECT_EQ(config->max_batch_tokens.value, 128u);
  ASSERT_EQ(config->sampler.options.size(), 2u);
  EXPECT_EQ(config->sampler.options[0].origin.file, folder.path("base/base.toml"));
  EXPECT_EQ(config->sampler.options[1].value, SettingValue(int64_t{3}));
}

TEST(PipelineConfig, refuses_files_that_extend_each_other) {
  const TemporaryFolder folder;
  folder.write_file("a.toml", "format = 1\nextends = \"b.toml\"\n");
  folder.write_file("b.toml", "format = 1\nextends = \"./x/../a.toml\"\n");
  const auto config = load_pipeline_config(folder.path("a.toml"), {});
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.status().message(), folder.path("b.toml") + ":2:1: 'extends' leads back to '" +
                                           folder.path("a.toml") +
                                           "'; a file cannot extend itself, remove one of them");
}

TEST(PipelineConfig, refuses_an_endless_chain_of_files) {
  const TemporaryFolder folder;
  for (int i = 0; i < 20; ++i) {
    folder.write_file(std::to_string(i) + ".toml",
                      "format = 1\nextends = \"" + std::to_string(i + 1) + ".toml\"\n");
  }
  const auto config = load_pipeline_config(folder.path("0.toml"), {});
  ASSERT_FALSE(config.ok());
  EXPECT_THAT(config.status().message(), HasSubstr("'extends' goes through more than 16 files"));
}

TEST(PipelineConfig, says_which_file_wants_one_that_is_not_there) {
  EXPECT_EQ(error_of("extends = \"nothing.toml\"\n"),
            "p.toml:2:1: 'extends': cannot open '/conf/nothing.toml': No such file or directory");
}

TEST(PipelineConfig, reads_no_giant_file) {
  const TemporaryFolder folder;
  folder.write_file("big.toml", "format = 1\n#" + std::string(2 << 20, 'x'));
  const auto config = load_pipeline_config(folder.path("big.toml"), {});
  ASSERT_FALSE(config.ok());
  EXPECT_THAT(config.status().message(), HasSubstr("at most 1048576 are read"));
}

TEST(PipelineConfig, survives_deep_nesting) {
  EXPECT_THAT(error_of("a = " + std::string(100000, '[')), StartsWith("p.toml:2:"));
  std::string deep = "a";
  for (int i = 0; i < 200000; ++i) deep += ".a";
  EXPECT_THAT(error_of("# one\n" + deep + " = 1\n"), StartsWith("p.toml:3:1: more than 32 points"));
  EXPECT_THAT(error_of("[" + deep + "]\n"), StartsWith("p.toml:2:1: more than 32 points"));
  EXPECT_THAT(error_of("", {"a={" + deep + "=1}"}), HasSubstr("unknown key 'a'"));
}

TEST(PipelineConfig, allows_points_in_texts_and_comments) {
  const std::string points(100, '.');
  EXPECT_EQ(error_of("# " + points + "\n[sampler.options]\na = \"\\\"" + points + "\"\nb = '" +
                     points + "'\nc = \"\"\"\n" + points + "\n\"\"\" # " + points + "\n"),
            "");
}

TEST(PipelineConfig, reads_a_bounded_number_of_entries_and_reports_a_bounded_number_of_faults) {
  std::string many;
  for (int i = 0; i < 5000; ++i) many += "k" + std::to_string(i) + " = 1\n";
  EXPECT_EQ(error_of(many), "p.toml: it has more than 4096 entries");
  std::string some = "[limits]\n" + many.substr(0, many.find("k100 "));
  EXPECT_THAT(error_of(some), EndsWith("\nand 70 further faults"));
}

TEST(PipelineConfig, a_second_model_leaves_with_its_drafter) {
  const std::string text = "[drafter]\nplugin = 'draft_model'\nmodel = '/m/small'\n";
  EXPECT_EQ(parsed(text).draft_model_path.value, "/m/small");
  EXPECT_EQ(parsed(text, {"drafter.plugin=ngram"}).draft_model_path.value, "");
  EXPECT_EQ(parsed(text, {"drafter.plugin=none"}).draft_model_path.value, "");
}

}  // namespace
}  // namespace tenon
