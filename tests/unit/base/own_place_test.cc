#include "core/base/files/own_place.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/folders.h"

namespace tenon {
namespace {

TEST(OwnPlace, is_the_program_that_the_code_was_linked_into) {
  EXPECT_EQ(own_file(), std::filesystem::read_symlink("/proc/self/exe"));
  EXPECT_EQ(install_prefix(own_file()), build_folder());
}

TEST(OwnPlace, programs_and_libraries_of_an_installation_have_one_prefix) {
  EXPECT_EQ(install_prefix("/opt/tenon/bin/tenon"), "/opt/tenon");
  EXPECT_EQ(install_prefix("/opt/tenon/" + std::string(library_folder()) + "/libtenon.so.1"),
            "/opt/tenon");
}

}  // namespace
}  // namespace tenon
