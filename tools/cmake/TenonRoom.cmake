# One CMake target per room (a folder under core/). A room names the rooms below it that it may
# use and the third-party libraries that live only there; links are private to keep it so.
#
#   tenon_room(tokenizer ALCOVES models regex DEPS base LIBS PkgConfig::PCRE2)
#
# builds the static library tenon_tokenizer (alias tenon::tokenizer) from core/tokenizer/*.cc and the
# folders core/tokenizer/{models,regex} and, where TENON_BUILD_TESTS is on, the test program tenon_tokenizer_tests from
# tests/unit/tokenizer/*_test.cc. Sources are globbed, so adding a file needs no edit here.

# Rooms that work once per process, file or request: less optimisation compiles them in three quarters of
# the time, and nobody waits for them. What works per token or per weight keeps the build's own flags.
set(TENON_ROOMS_NOT_HOT hub hub_pull request plugin config jinja server_parameters server_api http server
                        server_trace client workload llm_open)

# Where size counts (TENON_SMALL, decision 151), these rooms and those that work once per comparison, plan
# or model are compiled for size, unless they are shared with what was tested (decision 191).
set(TENON_ROOMS_SELDOM compare report capacity conformance pipeline model)
set(TENON_NOT_HOT -O1)
# The preset `dev` is compiled to be tested: rooms that neither compute steps nor work on bulk data take
# less there, too. `tiers` and `transfer` carry gigabytes: blobs are not cleared by a loop over their bytes that
# does nothing, and that -O1 leaves in.
if(TENON_DEVELOPER AND NOT TENON_SANITIZE)
  list(APPEND TENON_ROOMS_NOT_HOT capacity compare evaluate llm model pipeline server)
  if(NOT TENON_SMALL)
    list(APPEND TENON_ROOMS_NOT_HOT chat files grammar isolation tokenizer)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # GCC 12 doubts what it could follow with more of it.
    list(APPEND TENON_NOT_HOT -Wno-error=maybe-uninitialized)
  endif()
endif()
# … and none of it where neither tests nor measurements of the preset's speed wait for them (decision 215).
set(TENON_ROOMS_UNHURRIED "")
set(TENON_UNHURRIED "")
if(TENON_DEVELOPER AND TENON_BUILD_TESTS AND NOT TENON_SANITIZE AND NOT CMAKE_CROSSCOMPILING)
  set(TENON_ROOMS_UNHURRIED capacity hub hub_pull llm_open pipeline plugin server_parameters server_trace workload)
  set(TENON_UNHURRIED -O0)
endif()
if(TENON_SMALL)
  add_link_options(-Wl,--gc-sections)
endif()
if(TENON_SMALL AND NOT TENON_DEVELOPER)
  # A section for each function: the linker leaves out what nothing uses.
  set(TENON_NOT_HOT -Os -ffunction-sections -fdata-sections)
  list(APPEND TENON_ROOMS_NOT_HOT ${TENON_ROOMS_SELDOM})
endif()

# What reads untrusted input counts its basic blocks where tests are built, for tests/growth: once compiled,
# in place of a second time for that test alone (decision 188). Elsewhere counting does nothing.
set(TENON_ROOMS_COUNTED chat config files grammar jinja request server_api tokenizer)
set(TENON_COUNTED "")
if(TENON_DEVELOPER AND TENON_BUILD_TESTS AND NOT TENON_SANITIZE)
  set(TENON_COUNTED -fsanitize-coverage=trace-pc)
endif()

function(tenon_target_defaults target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  # Sums keep their order: contraction would let the compiler fuse them differently per build.
  target_compile_options(${target} PRIVATE -ffp-contract=off -fvisibility=hidden)
  if(TENON_DEVELOPER)
    target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Werror)
  elseif(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # On by default, and wrong about std::string's own insert and replace (GCC 12, bug 105651).
    target_compile_options(${target} PRIVATE -Wno-stringop-overflow)
  endif()
endfunction()

function(tenon_room name)
  cmake_parse_arguments(ARG "" "FOLDER" "ALCOVES;DEPS;LIBS" ${ARGN})
  if(NOT ARG_FOLDER)
    set(ARG_FOLDER core/${name})
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${ARG_FOLDER}/*.cc)
  foreach(alcove ${ARG_ALCOVES})
    file(GLOB more CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${ARG_FOLDER}/${alcove}/*.cc)
    list(APPEND sources ${more})
  endforeach()
  if(NOT sources)
    return()
  endif()
  add_library(tenon_${name} STATIC ${sources})
  add_library(tenon::${name} ALIAS tenon_${name})
  tenon_target_defaults(tenon_${name})
  if(name IN_LIST TENON_ROOMS_NOT_HOT)
    target_compile_options(tenon_${name} PRIVATE ${TENON_NOT_HOT})
  endif()
  if(name IN_LIST TENON_ROOMS_UNHURRIED)
    target_compile_options(tenon_${name} PRIVATE ${TENON_UNHURRIED})
  endif()
  if(name IN_LIST TENON_ROOMS_COUNTED)
    target_compile_options(tenon_${name} PRIVATE ${TENON_COUNTED})
  endif()
  set_target_properties(tenon_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(tenon_${name} PUBLIC tenon::boundary)
  foreach(dep ${ARG_DEPS})
    target_link_libraries(tenon_${name} PUBLIC tenon::${dep})
  endforeach()
  target_link_libraries(tenon_${name} PRIVATE ${ARG_LIBS})
  tenon_room_tests(${name} LIBS ${ARG_LIBS})
endfunction()

# Tests of one room: tests/unit/<name>/*_test.cc become one program and one ctest per test case.
function(tenon_room_tests name)
  cmake_parse_arguments(ARG "" "" "LIBS" ${ARGN})
  if(NOT TENON_BUILD_TESTS)
    return()
  endif()
  file(GLOB_RECURSE tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/unit/${name}/*_test.cc)
  if(NOT tests)
    return()
  endif()
  add_executable(tenon_${name}_tests ${tests})
  tenon_test_defaults(tenon_${name}_tests)
  # These compute little themselves.
  target_compile_options(tenon_${name}_tests PRIVATE -O0)
  target_link_libraries(tenon_${name}_tests PRIVATE tenon::${name} ${ARG_LIBS} GTest::gmock
                                                    GTest::gtest_main)
  add_test(NAME unit.${name} COMMAND tenon_${name}_tests)
endfunction()

# What test programs have in common: the folders that they may look into, and less optimisation,
# which compiles them in three quarters of the time. What they test keeps its own flags.
function(tenon_test_defaults target)
  tenon_target_defaults(${target})
  target_compile_options(${target} PRIVATE -O1)
  target_link_libraries(${target} PRIVATE tenon_test_folders)
endfunction()

# An executor that is a library of its own, from this build alone (core/exec/executor_library.h):
#
#   tenon_add_executor(cuda SOURCES … LIBS tenon::exec …)
#
# builds libtenon-executor-cuda.so where the program looks for it.
function(tenon_add_executor name)
  cmake_parse_arguments(ARG "NO_INSTALL" "FOLDER" "SOURCES;LIBS" ${ARGN})
  if(NOT ARG_FOLDER)
    set(ARG_FOLDER ${PROJECT_BINARY_DIR}/executors)
  endif()
  add_library(executor_${name} MODULE ${ARG_SOURCES})
  tenon_target_defaults(executor_${name})
  target_compile_definitions(executor_${name}
                             PRIVATE TENON_EXECUTOR_STAMP="${TENON_EXECUTOR_STAMP}")
  target_link_libraries(executor_${name} PRIVATE tenon::exec ${ARG_LIBS})
  # The rooms that are linked in stay its own.
  target_link_options(executor_${name} PRIVATE -Wl,--exclude-libs,ALL -Wl,-z,nodelete -Wl,-z,now)
  set_target_properties(executor_${name} PROPERTIES PREFIX "libtenon-executor-" OUTPUT_NAME ${name}
                                                    LIBRARY_OUTPUT_DIRECTORY ${ARG_FOLDER})
  if(NOT ARG_NO_INSTALL)
    install(TARGETS executor_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tenon/executors)
  endif()
endfunction()

# Tests of one plugin: tenon_plugin_tests(<target>), called in the plugin's own CMakeLists.txt after
# tenon_add_plugin, links the plugin's objects together with this folder's *_test.cc into one
# program. The plugin's exported table is linked in, not loaded: tests/support/plugin_instance.h
# makes instances from it. The ctest name follows the folder: plugin.<interface>.<variant>.
function(tenon_plugin_tests target)
  if(NOT TENON_BUILD_TESTS)
    return()
  endif()
  file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cc)
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR FILENAME variant)
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR PARENT_PATH parent)
  cmake_path(GET parent FILENAME interface)
  add_executable(${target}_tests ${tests} $<TARGET_OBJECTS:${target}>)
  tenon_test_defaults(${target}_tests)
  target_include_directories(${target}_tests
                             PRIVATE $<TARGET_PROPERTY:${target},INCLUDE_DIRECTORIES>)
  target_link_libraries(${target}_tests PRIVATE tenon::sdk tenon::boundary tenon::base
                                                GTest::gmock GTest::gtest_main)
  add_test(NAME plugin.${interface}.${variant} COMMAND ${target}_tests)
endfunction()
