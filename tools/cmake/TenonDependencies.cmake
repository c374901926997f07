# Third-party libraries, all from the distribution. Each is linked by exactly one room.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(spdlog REQUIRED)
add_library(tenon_spdlog INTERFACE)
add_library(tenon::spdlog ALIAS tenon_spdlog)
if(TENON_SMALL)
  # Compiled into the room that uses it: the distribution's library needs libstdc++ of the compiler that
  # it was built with, and a wheel would bring it along (docs/decisions/190-…).
  find_package(fmt REQUIRED)
  target_compile_definitions(tenon_spdlog INTERFACE SPDLOG_FMT_EXTERNAL)
  target_link_libraries(tenon_spdlog INTERFACE fmt::fmt-header-only Threads::Threads)
else()
  target_link_libraries(tenon_spdlog INTERFACE spdlog::spdlog)
endif()
# Where a build is small, the one function of GCC 12's libstdc++ that GCC 11's has not is ours
# (core/base/threads/older_wait.cc).
function(tenon_older_wait target)
  if(TENON_SMALL AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_link_options(${target} PRIVATE -Wl,--wrap=_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE)
  endif()
endfunction()
find_package(nlohmann_json REQUIRED)
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(Boost 1.74 REQUIRED COMPONENTS filesystem)
# Asio with coroutines, which it does not look for where the compiler is clang.
add_library(tenon_asio INTERFACE)
add_library(tenon::asio ALIAS tenon_asio)
target_link_libraries(tenon_asio INTERFACE Boost::headers Threads::Threads)
# Beast asserts of an empty chunked body that it does not come byte by byte, which peers decide; what
# follows the assertion needs no such thing.
target_compile_definitions(tenon_asio INTERFACE BOOST_DISABLE_ASSERTS)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  target_compile_definitions(tenon_asio INTERFACE BOOST_ASIO_HAS_CO_AWAIT
                                                  BOOST_ASIO_HAS_STD_COROUTINE)
endif()
# libcrypto is the room `plugin`'s, libssl `http`'s.
find_package(OpenSSL 3.0 REQUIRED)
find_package(CLI11 REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(TOMLPP REQUIRED IMPORTED_TARGET tomlplusplus)
# Line editing in `tenon chat`; without it lines are read as they come.
pkg_check_modules(LIBEDIT IMPORTED_TARGET libedit)
if(TENON_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
if(TENON_BUILD_BENCH)
  find_package(benchmark REQUIRED)
endif()
