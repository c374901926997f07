# Headers of the standard library, and GoogleTest's for tests, are read once for all sources that are
# compiled with the same flags: an ordinary source spends a quarter of its time on them.
#
# GCC takes a precompiled header only with the flags that it was made with, so targets of the same
# flags share one; sources with flags of their own read headers as ever. All sources include what they
# use: -DTENON_PCH=OFF compiles without, and so do clang-tidy and builds with clang.
#
# Called once, after all targets have their options.

# What a header costs to precompile is saved by about four units.
set(TENON_FEWEST_PRECOMPILED 30)

# No header of this project, since any edit of one would compile everything anew, and none that depends
# on definitions.
set(TENON_PRECOMPILED_HEADERS
    <algorithm> <array> <atomic> <bit> <charconv> <chrono> <cmath> <cstddef> <cstdint> <cstdio>
    <cstdlib> <cstring> <filesystem> <functional> <limits> <map> <memory> <mutex> <numeric>
    <optional> <set> <span> <string> <string_view> <thread> <unordered_map> <utility> <variant>
    <vector>)
set(TENON_PRECOMPILED_TEST_HEADERS <fstream> <random> <sstream> <gmock/gmock.h> <gtest/gtest.h>)

function(tenon_precompile_headers)
  if(NOT TENON_PCH)
    return()
  endif()
  tenon_targets_below(${PROJECT_SOURCE_DIR} targets)
  set(kinds "")
  foreach(target ${targets})
    tenon_compiled_like(${target} kind)
    if(kind)
      list(APPEND kinds ${kind})
      list(APPEND targets_${kind} ${target})
      get_target_property(sources ${target} SOURCES)
      list(APPEND sources_${kind} ${sources})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES kinds)
  foreach(kind ${kinds})
    list(LENGTH sources_${kind} count)
    if(count LESS TENON_FEWEST_PRECOMPILED)
      continue()
    endif()
    list(GET targets_${kind} 0 first)
    tenon_add_headers(tenon_headers_${kind} ${first})
    foreach(target ${targets_${kind}})
      tenon_except_own_flags(${target})
      # GCC 12 doubts what it inlines of precompiled headers, here and there, where it does not otherwise.
      target_compile_options(${target} PRIVATE -Wno-error=array-bounds -Wno-error=restrict
                                               -Wno-error=stringop-overflow -Wno-error=stringop-overread)
      target_precompile_headers(${target} REUSE_FROM tenon_headers_${kind})
    endforeach()
  endforeach()
endfunction()

# A name that targets share if GCC may use the same precompiled header for them; empty if nothing is
# compiled.
function(tenon_compiled_like target result)
  set(${result} "" PARENT_SCOPE)
  get_target_property(type ${target} TYPE)
  get_target_property(sources ${target} SOURCES)
  if(NOT type MATCHES "^(EXECUTABLE|(STATIC|SHARED|MODULE|OBJECT)_LIBRARY)$"
     OR NOT sources MATCHES "\\.cc(;|$)")
    return()
  endif()
  tenon_own_flags(${target} flags independent)
  string(SHA256 digest "${flags} ${independent}")
  string(SUBSTRING ${digest} 0 6 digest)
  set(kind plain)
  get_target_property(libraries ${target} LINK_LIBRARIES)
  if(libraries MATCHES "GTest::")
    set(kind tests)
  endif()
  set(${result} ${kind}_${digest} PARENT_SCOPE)
endfunction()

# The options of a target that GCC compares, and whether its code is independent of its position.
function(tenon_own_flags target flags independent)
  get_target_property(options ${target} COMPILE_OPTIONS)
  list(FILTER options EXCLUDE REGEX "^-W")
  set(${flags} "${options}" PARENT_SCOPE)
  get_target_property(asked ${target} POSITION_INDEPENDENT_CODE)
  get_target_property(type ${target} TYPE)
  if(asked OR type MATCHES "^(SHARED|MODULE)")
    set(${independent} ON PARENT_SCOPE)
  else()
    set(${independent} OFF PARENT_SCOPE)
  endif()
endfunction()

# Compiles the headers as a target's sources are compiled.
function(tenon_add_headers name like)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/headers.cc CONTENT "")
  tenon_own_flags(${like} flags independent)
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/headers.cc)
  target_compile_options(${name} PRIVATE ${flags})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ${independent})
  target_precompile_headers(${name} PRIVATE ${TENON_PRECOMPILED_HEADERS})
  if(name MATCHES tests_)
    target_precompile_headers(${name} PRIVATE ${TENON_PRECOMPILED_TEST_HEADERS})
    target_link_libraries(${name} PRIVATE GTest::gmock)
  endif()
endfunction()

# Sources for one instruction set, for example.
function(tenon_except_own_flags target)
  get_target_property(sources ${target} SOURCES)
  get_target_property(folder ${target} SOURCE_DIR)
  list(FILTER sources EXCLUDE REGEX "^[$]")
  foreach(source ${sources})
    # A name that is not absolute would be looked up from here.
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder})
    get_source_file_property(options ${source} TARGET_DIRECTORY ${target} COMPILE_OPTIONS)
    if(options)
      set_source_files_properties(${source} TARGET_DIRECTORY ${target}
                                  PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
endfunction()
