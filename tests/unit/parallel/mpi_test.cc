#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/parallel/mpi/launch_line.h"
#include "core/parallel/mpi/mpi_library.h"

namespace tenon {
namespace {

TEST(MpiLibraryTest, an_absent_library_is_named_with_the_package_that_brings_it) {
  const auto library = load_mpi("libnobody-has-this.so.40");
  ASSERT_FALSE(library.ok());
  EXPECT_EQ(library.status().message(),
            "Open MPI's library libnobody-has-this.so.40 is not installed; Debian's package "
            "openmpi-bin brings it");
}

TEST(MpiLibraryTest, a_library_that_is_not_open_mpi_is_refused) {
  const auto library = load_mpi("libm.so.6");
  ASSERT_FALSE(library.ok());
  EXPECT_EQ(library.status().message(),
            "the library libm.so.6 is not Open MPI's, since it has no MPI_Init_thread; install "
            "Debian's package openmpi-bin");
}

TEST(LaunchLineTest, without_a_launcher_its_package_is_named) {
  const std::string before = std::getenv("PATH") != nullptr ? std::getenv("PATH") : "";
  setenv("PATH", "/nowhere", 1);
  const auto line = launch_line(2, {"run", "--launch", "2", "Once"});
  setenv("PATH", before.c_str(), 1);
  ASSERT_FALSE(line.ok());
  EXPECT_THAT(std::string(line.status().message()), testing::HasSubstr("openmpi-bin"));
}

TEST(LaunchLineTest, the_number_of_ranks_stands_where_it_was_asked_for) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("tenon-launch-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "mpirun") << "#!/bin/sh\n";
  std::filesystem::permissions(folder / "mpirun", std::filesystem::perms::owner_all);
  const std::string before = std::getenv("PATH") != nullptr ? std::getenv("PATH") : "";
  setenv("PATH", folder.c_str(), 1);
  const auto line = launch_line(2, {"run", "--launch", "2", "--set", "a=1", "--", "--launch", "x"});
  const auto joined = launch_line(3, {"run", "--launch=3", "Once"});
  setenv("PATH", before.c_str(), 1);
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(line.ok() && joined.ok());
  const auto tail = [](const std::vector<std::string>& words, size_t count) {
    return std::vector<std::string>(words.end() - static_cast<ptrdiff_t>(count), words.end());
  };
  EXPECT_THAT(tail(*line, 8), testing::ElementsAre("run", "--launched", "2", "--set", "a=1", "--",
                                                   "--launch", "x"));
  EXPECT_THAT(tail(*joined, 4), testing::ElementsAre("run", "--launched", "3", "Once"));
}

}  // namespace
}  // namespace tenon
