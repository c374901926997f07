#include "core/plugin/stamp.h"

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "core/base/log.h"
#include "tests/unit/plugin/bad_plugins.h"

namespace tenon {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string message_of(const std::string& bytes) {
  const auto stamp = parse_stamp(std::as_bytes(std::span(bytes)), "libx.so");
  return stamp.ok() ? "" : std::string(stamp.status().message());
}
std::string check(const std::string& key, const std::string& value) {
  const std::string bytes = with_stamp(read_bytes(bad_plugin("sound")), key, value);
  const auto stamp = parse_stamp(std::as_bytes(std::span(bytes)), "libx.so");
  if (!stamp.ok()) return std::string(stamp.status().message());
  return std::string(check_stamp(*stamp, host_stamp(), "libx.so").message());
}

TEST(Stamp, says_what_a_library_contains_without_loading_it) {
  const auto stamp = read_stamp(bad_plugin("sound"));
  ASSERT_TRUE(stamp.ok()) << stamp.status().message();
  EXPECT_EQ(stamp->plugins,
            (std::vector<PluginName>{
                {"scheduler/2", "sound"}, {"scheduler/2", "steady"}, {"scheduler/2", "swift"}}));
  EXPECT_EQ(stamp->boundary, host_stamp().boundary);
  EXPECT_EQ(stamp->cuda, "none");
}

TEST(Stamp, of_a_plugin_built_beside_this_program_fits_it) {
  const auto stamp = read_stamp(bad_plugin("sound"));
  ASSERT_TRUE(stamp.ok());
  EXPECT_EQ(check_stamp(*stamp, host_stamp(), "x").message(), "");
}

TEST(Stamp, refuses_a_file_that_is_no_elf) {
  EXPECT_EQ(message_of("#!/bin/sh\necho this is not a library\n"),
            "libx.so: not a plugin: expected a shared library (an ELF file)");
}

TEST(Stamp, refuses_an_empty_file) {
  EXPECT_EQ(message_of(""), "libx.so: not a plugin: the file is empty");
  EXPECT_EQ(message_of("\x7f"
                       "EL"),
            "libx.so: not a plugin: expected a shared library (an ELF file)");
}

// Whatever is left of it says that it is an ELF file, and what it should go on with.
TEST(Stamp, says_of_what_is_left_of_a_library_that_it_is_truncated) {
  const std::string bytes = read_bytes(bad_plugin("sound"));
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  const auto table_end = std::to_string(header.e_phoff + header.e_phnum * sizeof(Elf64_Phdr));
  const auto truncated = [&](size_t size, const std::string& what, const std::string& end) {
    EXPECT_EQ(message_of(bytes.substr(0, size)),
              "libx.so: the library is truncated: " + what + " at byte " + end +
                  " and the file at " + std::to_string(size) + "; copy or build it anew");
  };
  for (const size_t size : {4, 15, 16, 63}) truncated(size, "its ELF header ends", "64");
  for (const size_t size : {64, 200}) truncated(size, "its table of segments ends", table_end);
}

TEST(Stamp, refuses_a_header_without_segments) {
  std::string bytes = read_bytes(bad_plugin("sound"));
  bytes[56] = bytes[57] = 0;  // e_phnum
  EXPECT_THAT(message_of(bytes), HasSubstr("the library is damaged: its ELF header lists no"));
}

TEST(Stamp, refuses_a_table_of_segments_beyond_all_files) {
  std::string bytes = read_bytes(bad_plugin("sound"));
  for (size_t i = 32; i < 40; ++i) bytes[i] = static_cast<char>(0xff);  // e_phoff
  EXPECT_THAT(message_of(bytes), HasSubstr("the library is truncated: its table of segments"));
}

TEST(Stamp, refuses_a_library_without_a_note) {
  EXPECT_THAT(message_of(read_bytes(bad_plugin("no_stamp"))),
              StartsWith("libx.so: not a plugin: a shared library without a TENON note"));
}

TEST(Stamp, refuses_a_program) {
  std::string bytes = read_bytes(bad_plugin("sound"));
  bytes[16] = 2;  // e_type = ET_EXEC
  EXPECT_EQ(message_of(bytes), "libx.so: not a plugin: an ELF file, but not a shared library");
}

TEST(Stamp, refuses_a_32_bit_library) {
  std::string bytes = read_bytes(bad_plugin("sound"));
  bytes[4] = 1;
  EXPECT_THAT(message_of(bytes), HasSubstr("built for another architecture"));
}

TEST(Stamp, refuses_every_truncation_of_a_plugin) {
  const std::string bytes = read_bytes(bad_plugin("sound"));
  const size_t note_end = bytes.find('\0', bytes.find("note=1\n"));
  for (size_t size = 4; size < note_end; size += 97) {
    EXPECT_THAT(message_of(bytes.substr(0, size)), HasSubstr("the library is truncated")) << size;
  }
}

// Where the last of what loads ends; sections come after it.
size_t segments_end(const std::string& bytes) {
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  size_t end = 0;
  for (size_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, &bytes[header.e_phoff + i * sizeof segment], sizeof segment);
    if (segment.p_type == PT_LOAD) end = std::max(end, segment.p_offset + segment.p_filesz);
  }
  return end;
}

TEST(Stamp, refuses_a_plugin_whose_segments_end_behind_the_file) {
  const std::string bytes = read_bytes(bad_plugin("sound"));
  const size_t end = segments_end(bytes);
  EXPECT_EQ(message_of(bytes), "");
  EXPECT_EQ(message_of(bytes.substr(0, end)), "");
  const size_t note_end = bytes.find('\0', bytes.find("note=1\n"));
  for (const size_t size : {note_end + 1, (note_end + end) / 2, end - 1}) {
    EXPECT_THAT(message_of(bytes.substr(0, size)), HasSubstr("the library is truncated")) << size;
  }
}

TEST(Stamp, names_both_architectures_when_they_differ) {
  EXPECT_THAT(check("arch", "sparc-linux"),
              HasSubstr("architecture is sparc-linux, expected " + host_stamp().arch));
}

TEST(Stamp, refuses_a_machine_that_its_text_hides) {
  std::string bytes = read_bytes(bad_plugin("sound"));
  bytes[18] = 2;  // e_machine = EM_SPARC
  const auto stamp = parse_stamp(std::as_bytes(std::span(bytes)), "libx.so");
  ASSERT_TRUE(stamp.ok());
  EXPECT_THAT(check_stamp(*stamp, host_stamp(), "x").message(), HasSubstr("the ELF machine is 2"));
}

TEST(Stamp, names_both_abis_when_they_differ) {
  EXPECT_THAT(check("cxxabi", "itanium-libc++"),
              HasSubstr("C++ ABI is itanium-libc++, expected " + host_stamp().cxxabi));
}

TEST(Stamp, refuses_another_boundary_and_says_how_to_rebuild) {
  const std::string message = check("boundary", "0123456789abcdef");
  EXPECT_THAT(message, StartsWith("libx.so: the plugin (SDK " + host_stamp().sdk +
                                  ") does not fit this program (" + host_stamp().sdk + ")"));
  EXPECT_THAT(message,
              HasSubstr("boundary is 0123456789abcdef, expected " + host_stamp().boundary));
  EXPECT_THAT(message, HasSubstr("rebuild it against this program's SDK: cmake --fresh"));
}

TEST(Stamp, refuses_another_struct_layout) {
  EXPECT_THAT(check("layout", "ffffffffffffffff"),
              HasSubstr("it was built with flags that change struct layout"));
}

TEST(Stamp, refuses_a_newer_sdk) {
  EXPECT_THAT(check("sdk", "0.99.0"), HasSubstr("SDK is 0.99.0, expected at most 0."));
  EXPECT_THAT(check("sdk", "0.99.0"), HasSubstr("the plugin is newer than this program"));
}

TEST(Stamp, refuses_another_major_sdk) {
  EXPECT_THAT(check("sdk", "7.0.0"), HasSubstr("SDK is 7.0.0, expected 0.x"));
}

TEST(Stamp, accepts_an_older_minor_and_any_patch) {
  PluginStamp newer = host_stamp();
  newer.sdk = "0.9.0";
  PluginStamp older = newer;
  older.sdk = "0.8.7";
  EXPECT_TRUE(check_stamp(older, newer, "x").ok());
  older.sdk = "0.9.12";
  EXPECT_TRUE(check_stamp(older, newer, "x").ok());
}

TEST(Stamp, lists_all_faults_in_one_message) {
  PluginStamp stamp = host_stamp();
  stamp.boundary = "0";
  stamp.layout = "1";
  const Status status = check_stamp(stamp, host_stamp(), "x");
  EXPECT_THAT(status.message(), HasSubstr("\n  boundary is 0"));
  EXPECT_THAT(status.message(), HasSubstr("\n  struct layout is 1"));
}

TEST(Stamp, warns_when_only_one_side_is_sanitized) {
  std::vector<std::string> lines;
  set_log_sink(
      [&](LogLevel, std::string_view, std::string_view text) { lines.emplace_back(text); });
  PluginStamp stamp = host_stamp();
  PluginStamp host = host_stamp();
  host.build = "release";
  stamp.build = "asan";
  EXPECT_TRUE(check_stamp(stamp, host, "libx.so").ok());
  stamp.build = "debug";
  EXPECT_TRUE(check_stamp(stamp, host, "libx.so").ok());
  set_log_sink({});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], HasSubstr("built as 'asan', this program as 'release'"));
}

TEST(Stamp, of_a_newer_kind_is_refused) {
  EXPECT_THAT(check("note", "2"), HasSubstr("damaged or of a newer kind: expected 'note=1'"));
}

TEST(Stamp, must_have_every_line_that_decides) {
  EXPECT_THAT(check("boundary", ""), HasSubstr("the stamp is damaged: it has no 'boundary'"));
}

TEST(Stamp, must_name_plugins_by_interface_and_id) {
  EXPECT_THAT(check("plugins", "scheduler/2:Sound"),
              HasSubstr("'scheduler/2:Sound' does not name"));
  EXPECT_THAT(check("plugins", "scheduler:sound"), HasSubstr("does not name a plugin"));
  EXPECT_THAT(check("plugins", ""), HasSubstr("the stamp lists no plugins"));
  EXPECT_THAT(check("plugins", "sampler/2:a,sampler/2:a"), HasSubstr("'sampler/2:a' twice"));
}

TEST(Stamp, may_have_lines_of_a_later_sdk) {
  PluginStamp stamp = host_stamp();
  const std::string bytes = with_stamp(read_bytes(bad_plugin("sound")), "cuda", "none\nfuture=1");
  EXPECT_EQ(message_of(bytes), "");
}

TEST(PluginId, is_a_word_or_a_vendor_and_a_word) {
  for (const char* good : {"chunked", "a", "cpu_paged2", "acme.lottery"}) {
    EXPECT_TRUE(valid_plugin_id(good)) << good;
  }
  for (const char* bad : {"", "2b", "Chunked", "a-b", "a.", ".b", "a.b.c", "a b",
                          "a12345678901234567890123456789012"}) {
    EXPECT_FALSE(valid_plugin_id(bad)) << bad;
  }
}

}  // namespace
}  // namespace tenon
