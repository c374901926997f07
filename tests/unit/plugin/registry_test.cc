#include "core/plugin/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/base/digest/sha256.h"
#include "core/base/log.h"
#include "tests/support/folders.h"
#include "tests/unit/plugin/bad_plugins.h"

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

HostFacts host_with(CpuFeatures isa) {
  HostFacts host;
  host.cpu = isa;
  return host;
}

PluginSearch in_folders(std::vector<std::string> folders) {
  PluginSearch search;
  for (const std::string& folder : folders) {
    search.folders.push_back({folder, "--plugin-path", true});
  }
  return search;
}

PluginRegistry open_or_die(PluginSearch search) {
  auto registry = PluginRegistry::open(std::move(search));
  EXPECT_TRUE(registry.ok()) << registry.status().message();
  return *std::move(registry);
}

template <typename T>
std::string message_of(const Result<T>& result) {
  return result.ok() ? "" : std::string(result.status().message());
}

const Origin kAsked{"pipeline.toml", 14, 10};

TEST(Registry, lists_names_from_stamps) {
  const TemporaryFolder folder;
  copy_plugin("sound", folder, "libtenon-sound.so");
  const PluginRegistry registry = open_or_die(in_folders({folder.path()}));
  EXPECT_THAT(registry.names(),
              ElementsAre(PluginName{"scheduler/2", "sound"}, PluginName{"scheduler/2", "steady"},
                          PluginName{"scheduler/2", "swift"}));
  EXPECT_THAT(registry.names("sampler/2"), ElementsAre());
}

TEST(Registry, finds_and_loads_what_is_asked_for) {
  const TemporaryFolder folder;
  copy_plugin("sound", folder, "libtenon-sound.so");
  PluginRegistry registry = open_or_die(in_folders({folder.path()}));
  const auto plugin = registry.find("scheduler/2", "steady", kAsked);
  ASSERT_TRUE(plugin.ok()) << plugin.status().message();
  EXPECT_EQ(plugin->descriptor->id, "steady");
  EXPECT_EQ(plugin->library->path, folder.path("libtenon-sound.so"));
}

TEST(Registry, takes_only_files_with_the_name_of_a_plugin) {
  const TemporaryFolder folder;
  copy_plugin("sound", folder, "sound.so");
  folder.write_file("libtenon-notes.txt", "no plugin");
  EXPECT_TRUE(open_or_die(in_folders({folder.path()})).files().empty());
}

TEST(Registry, suggests_the_nearest_id_and_lists_the_others) {
  const TemporaryFolder folder;
  copy_plugin("sound", folder, "libtenon-sound.so");
  PluginRegistry registry = open_or_die(in_folders({folder.path()}));
  EXPECT_EQ(message_of(registry.find("scheduler/2", "staedy", kAsked)),
            "pipeline.toml:14:10: no scheduler plugin 'staedy'; did you mean 'steady'? There are: "
            "sound, steady, swift (searched: " +
                folder.path() + ")");
}

TEST(Registry, says_where_it_looked_when_there_is_nothing) {
  const TemporaryFolder folder;
  PluginRegistry registry = open_or_die(in_folders({folder.path()}));
  const std::string message = message_of(registry.find("sampler/2", "standard", kAsked));
  EXPECT_THAT(message,
              HasSubstr("there are no sampler plugins at all (searched: " + folder.path() + ")"));
  EXPECT_THAT(message, HasSubstr("--plugin-path or TENON_PLUGIN_PATH"));
}

TEST(Registry, refuses_an_id_that_two_files_have_and_names_both) {
  const TemporaryFolder folder;
  const std::string one = copy_plugin("sound", folder, "a/libtenon-sound.so");
  const std::string two = copy_plugin("sound", folder, "b/libtenon-sound.so");
  PluginRegistry registry = open_or_die(in_folders({folder.path("a"), folder.path("b")}));
  const std::string message = message_of(registry.find("scheduler/2", "sound"));
  EXPECT_EQ(message,
            "scheduler plugin 'sound' is in more than one file; remove or rename all but one:\n  " +
                one + "\n  " + two);
  EXPECT_EQ(message_of(registry.candidates("scheduler/2", {})), message);
}

TEST(Registry, takes_a_file_that_is_reached_twice_for_one) {
  const TemporaryFolder folder;
  const std::string path = copy_plugin("sound", folder, "libtenon-sound.so");
  PluginSearch search = in_folders({folder.path(), folder.path() + "/."});
  search.files.push_back({path, kAsked});
  PluginRegistry registry = open_or_die(search);
  EXPECT_TRUE(registry.find("scheduler/2", "sound").ok());
}

TEST(Registry, stops_at_a_file_with_the_id_that_cannot_be_used) {
  const TemporaryFolder folder;
  folder.write_file("libtenon-old.so",
                    with_stamp(read_bytes(bad_plugin("sound")), "boundary", "0123456789abcdef"));
  PluginRegistry registry = open_or_die(in_folders({folder.path()}));
  EXPECT_THAT(message_of(registry.find("scheduler/2", "sound", kAsked)),
              HasSubstr("boundary is 0123456789abcdef"));
}

TEST(Registry, finds_what_is_sound_beside_a_broken_file) {
  const TemporaryFolder folder;
  copy_plugin("sound", folder, "libtenon-sound.so");
  folder.write_file("libtenon-torn.so", "half a file");
  PluginRegistry registry = open_or_die(in_folders({folder.path()}));
  EXPECT_TRUE(registry.find("scheduler/2", "sound", kAsked).ok());
  EXPECT_TRUE(registry.candidates("scheduler/2", {}).ok());
}

TEST(Registry, names_broken_files_to_whoever_finds_nothing_else) {
  const TemporaryFolder folder;
  copy_plugin("sound", folder, "libtenon-sound.so");
  folder.write_file("libtenon-torn.so", "half a file");
  folder.write_file("libtenon-rent.so", "");
  PluginRegistry registry = open_or_die(in_folders({folder.path()}));
  EXPECT_THAT(
      message_of(registry.find("scheduler/2", "lost", kAsked)),
      HasSubstr("\nIt may be in a file that cannot be read:\n  " + folder.path("libtenon-rent.so") +
                ": not a plugin: the file is empty\n  " + folder.path("libtenon-torn.so") +
                ": not a plugin: expected a shared library (an ELF file)"));
}

TEST(Registry, does_not_speak_of_a_stray_library) {
  const TemporaryFolder folder;
  copy_plugin("no_stamp", folder, "libtenon-stray.so");
  PluginRegistry registry = open_or_die(in_folders({folder.path()}));
  ASSERT_EQ(registry.files().size(), 1u);
  EXPECT_TRUE(registry.files()[0].stray);
  EXPECT_THAT(message_of(registry.find("scheduler/2", "lost", kAsked)), Not(HasSubstr("stray")));
}

TEST(Registry, takes_the_sound_one_of_two_files_with_an_id) {
  const TemporaryFolder folder;
  const std::string sound = copy_plugin("sound", folder, "libtenon-sound.so");
  folder.write_file("libtenon-old.so",
                    with_stamp(read_bytes(bad_plugin("sound")), "boundary", "0123456789abcdef"));
  PluginRegistry registry = open_or_die(in_folders({folder.path()}));
  const auto plugin = registry.find("scheduler/2", "sound", kAsked);
  ASSERT_TRUE(plugin.ok()) << plugin.status().message();
  EXPECT_EQ(plugin->library->path, sound);
}

TEST(Registry, leaves_out_a_library_that_cannot_be_loaded_when_it_may_choose) {
  const TemporaryFolder folder;
  copy_plugin("sound", folder, "libtenon-sound.so");
  copy_plugin("missing_symbol", folder, "libtenon-missing_symbol.so");
  PluginRegistry registry = open_or_die(in_folders({folder.path()}));
  std::vector<std::string> lines;
  set_log_sink(
      [&](LogLevel, std::string_view, std::string_view text) { lines.emplace_back(text); });
  const auto plugins = registry.candidates("scheduler/2", {});
  set_log_sink({});
  ASSERT_TRUE(plugins.ok()) << plugins.status().message();
  EXPECT_THAT(lines, ElementsAre(HasSubstr("libtenon-missing_symbol.so: cannot be loaded")));
}

TEST(Registry, loads_what_it_knows_of_a_library_with_unknown_interfaces) {
  const TemporaryFolder folder;
  copy_plugin("mixed", folder, "libtenon-mixed.so");
  PluginRegistry registry = open_or_die(in_folders({folder.path()}));
  EXPECT_TRUE(registry.find(kSchedulerInterface, "today", kAsked).ok());
  EXPECT_THAT(registry.names(), ElementsAre(PluginName{std::string(kSchedulerInterface), "today"}));
}

TEST(Registry, says_that_a_plugin_is_there_for_another_revision) {
  const TemporaryFolder folder;
  const std::string path = copy_plugin("mixed", folder, "libtenon-mixed.so");
  PluginRegistry registry = open_or_die(in_folders({folder.path()}));
  EXPECT_EQ(message_of(registry.find(kSchedulerInterface, "tomorrow", kAsked)),
            "pipeline.toml:14:10: scheduler plugin 'tomorrow' is there for scheduler/9, this host "
            "speaks scheduler/2: rebuild it against this host's SDK (" +
                host_stamp().sdk + ")\n  " + path);
}

TEST(Registry, keeps_what_has_a_plugins_name_and_is_no_file_with_its_reason) {
  const TemporaryFolder folder;
  folder.write_file("libtenon-folder.so/inside", "");
  const PluginRegistry registry = open_or_die(in_folders({folder.path()}));
  ASSERT_EQ(registry.files().size(), 1u);
  EXPECT_EQ(registry.files()[0].problem.message(),
            "'" + folder.path("libtenon-folder.so") + "' is not a regular file");
}

TEST(Registry, passes_over_an_unusable_file_with_other_ids) {
  const TemporaryFolder folder;
  copy_plugin("sound", folder, "libtenon-sound.so");
  folder.write_file("libtenon-old.so", with_stamp(read_bytes(bad_plugin("unavailable")), "boundary",
                                                  "0123456789abcdef"));
  PluginRegistry registry = open_or_die(in_folders({folder.path()}));
  EXPECT_TRUE(registry.find("scheduler/2", "sound", kAsked).ok());
}

TEST(Registry, refuses_a_folder_that_was_given_and_does_not_exist) {
  EXPECT_EQ(message_of(PluginRegistry::open(in_folders({"/nowhere/plugins"}))),
            "--plugin-path: cannot read the folder '/nowhere/plugins': No such file or directory");
}

TEST(Registry, does_without_an_install_folder) {
  PluginSearch search;
  search.folders.push_back({"/nowhere/plugins", "install", false});
  EXPECT_TRUE(PluginRegistry::open(search).ok());
}

TEST(Registry, refuses_a_named_file_that_cannot_be_used) {
  PluginSearch search;
  search.files.push_back({"/nowhere/libmine.so", kAsked});
  EXPECT_EQ(message_of(PluginRegistry::open(search)),
            "pipeline.toml:14:10: plugins.load: cannot open '/nowhere/libmine.so': No such file or "
            "directory");
}

TEST(Registry, takes_a_named_file_under_any_name) {
  const TemporaryFolder folder;
  PluginSearch search;
  search.files.push_back({copy_plugin("sound", folder, "mine.so"), kAsked});
  PluginRegistry registry = open_or_die(search);
  EXPECT_TRUE(registry.find("scheduler/2", "sound").ok());
}

TEST(Registry, says_why_a_plugin_cannot_run_here) {
  PluginSearch search;
  search.files.push_back({bad_plugin("unavailable"), kAsked});
  PluginRegistry registry = open_or_die(search);
  EXPECT_EQ(message_of(registry.find_usable("drafter/2", "absent", {}, kAsked)),
            "pipeline.toml:14:10: drafter plugin 'absent' cannot run here: no such device");
  EXPECT_EQ(message_of(registry.candidates("drafter/2", {})),
            "no drafter plugin can run here:\n  drafter plugin 'absent' cannot run here: no such "
            "device");
}

TEST(Registry, offers_the_best_score_first_and_ties_by_name) {
  PluginSearch search;
  search.files.push_back({bad_plugin("sound"), kAsked});
  PluginRegistry registry = open_or_die(search);
  const auto ids = [&](CpuFeatures isa) {
    std::vector<std::string> found;
    const auto plugins = registry.candidates("scheduler/2", host_with(isa));
    EXPECT_TRUE(plugins.ok()) << plugins.status().message();
    for (const PluginRef& plugin : *plugins) found.emplace_back(plugin.descriptor->id);
    return found;
  };
  EXPECT_THAT(ids(kCpuAvx2), ElementsAre("swift", "sound", "steady"));
  EXPECT_THAT(ids(kCpuPortable), ElementsAre("sound", "steady"));
}

TEST(Registry, loads_only_what_a_lock_pins) {
  const TemporaryFolder folder;
  const std::string path = copy_plugin("sound", folder, "libtenon-sound.so");
  PluginSearch search = in_folders({folder.path()});
  const std::string digest = sha256_hex(read_bytes(path));
  search.lock_file =
      folder.write_file("plugins.lock", "# pinned\n" + digest + "  somewhere/libtenon-sound.so\n");
  PluginRegistry pinned = open_or_die(search);
  EXPECT_TRUE(pinned.find("scheduler/2", "sound").ok());

  search.lock_file = folder.write_file("plugins.lock", digest + "  libtenon-other.so\n");
  PluginRegistry unpinned = open_or_die(search);
  EXPECT_THAT(message_of(unpinned.find("scheduler/2", "sound")),
              HasSubstr(path + ": not pinned in '" + search.lock_file + "'"));
}

TEST(Registry, finds_the_lock_beside_a_configuration) {
  const TemporaryFolder folder;
  PluginSearch search;
  search.use_lock_beside(folder.path("pipeline.toml"));
  EXPECT_EQ(search.lock_file, "");
  const std::string lock = folder.write_file("plugins.lock", "");
  search.use_lock_beside(folder.path("pipeline.toml"));
  EXPECT_EQ(search.lock_file, lock);
}

TEST(Registry, refuses_a_lock_that_is_a_link_to_nowhere) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink(folder.path("gone"), folder.path("plugins.lock"));
  PluginSearch search = in_folders({folder.path()});
  search.use_lock_beside(folder.path("pipeline.toml"));
  EXPECT_THAT(message_of(PluginRegistry::open(search)), HasSubstr("plugins.lock"));
}

TEST(Registry, warns_of_a_plugin_folder_that_everybody_can_write_to) {
  const TemporaryFolder folder;
  copy_plugin("sound", folder, "libtenon-sound.so");
  std::string lines;
  set_log_sink([&](LogLevel, std::string_view, std::string_view text) { lines += text; });
  open_or_die(in_folders({folder.path()}));
  EXPECT_EQ(lines, "");
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  open_or_die(in_folders({folder.path()}));
  set_log_sink({});
  EXPECT_THAT(lines, HasSubstr("everybody on this machine can write to the plugin folder"));
}

TEST(Registry, finds_plugins_in_a_folder_whose_name_is_no_text) {
  const TemporaryFolder folder;
  const std::string name = "odd\xff\xfe";
  copy_plugin("sound", folder, name + "/libtenon-sound.so");
  PluginRegistry registry = open_or_die(in_folders({folder.path(name)}));
  const auto found = registry.find("scheduler/2", "sound");
  EXPECT_TRUE(found.ok()) << message_of(found);
}

TEST(Registry, tells_where_plugins_were_found_and_which_is_best) {
  const TemporaryFolder folder;
  const std::string path = copy_plugin("sound", folder, "libtenon-sound.so");
  std::string lines;
  set_log_level(LogLevel::debug);
  set_log_sink([&](LogLevel, std::string_view, std::string_view text) {
    lines += std::string(text) + "\n";
  });
  PluginRegistry registry = open_or_die(in_folders({folder.path()}));
  EXPECT_TRUE(registry.candidates("scheduler/2", host_with(kCpuPortable)).ok());
  set_log_sink({});
  set_log_level(LogLevel::warning);
  EXPECT_THAT(lines, HasSubstr("'" + path + "' (--plugin-path) "));
  EXPECT_THAT(lines, HasSubstr("scheduler, best first: "));
}

TEST(Registry, refuses_a_lock_that_it_cannot_read) {
  const TemporaryFolder folder;
  PluginSearch search;
  search.lock_file = folder.write_file("plugins.lock", "libtenon-sound.so = yes\n");
  EXPECT_EQ(message_of(PluginRegistry::open(search)),
            search.lock_file +
                ":1: expected 64 hex digits, two spaces and a file name, as sha256sum "
                "prints them");
}

TEST(PluginFolders, of_an_installed_program_lie_beside_it) {
  const auto folders = plugin_folders_beside("/opt/tenon/bin/tenon");
  ASSERT_EQ(folders.size(), 1u);
  EXPECT_THAT(folders[0], testing::MatchesRegex("/opt/tenon/lib.*/tenon/plugins"));
}

TEST(PluginFolders, of_a_program_in_its_build_folder_are_the_build_folders) {
  const std::string build = build_folder();
  const auto folders = plugin_folders_beside(build + "/bin/tenon");
  ASSERT_EQ(folders.size(), 2u);
  EXPECT_EQ(folders[1], build + "/plugins");
  EXPECT_EQ(plugin_folders_beside(build + "-copy/bin/tenon").size(), 1u);
}

}  // namespace
}  // namespace tenon
