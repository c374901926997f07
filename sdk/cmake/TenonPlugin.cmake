# tenon_add_plugin(<target> SOURCES <file>… [ISA_SOURCES <isa> <file>… …] [INCLUDES <dir>…])
#
# Builds libtenon-<target>.so with every flag that a plugin needs: hidden symbols with one export,
# no undefined symbol, never unloaded, no contraction of floating point, and installs it where
# `tenon` looks. ISA sources are compiled with the instruction set's flags; `isa` is one of
# avx2, avx_vnni, avx512, avx512_vnni, avx512_bf16, neon, neon_dotprod, neon_i8mm, neon_bf16. Sets
# of another processor than the one that is built for are left out. Works in the source tree and after
# find_package(tenon).
# Kernels without optimisation are a hundred times slower, so a build that asks for nothing gets it.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  message(STATUS "tenon: CMAKE_BUILD_TYPE is empty, building Release")
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug, RelWithDebInfo or MinSizeRel" FORCE)
endif()
set(TENON_PLUGIN_VERSION_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/plugin.map)

set(TENON_ISA_FLAGS_avx2 -mavx2 -mfma -mf16c)
set(TENON_ISA_FLAGS_avx_vnni ${TENON_ISA_FLAGS_avx2} -mavxvnni)
set(TENON_ISA_FLAGS_avx512 ${TENON_ISA_FLAGS_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl
                           -mprefer-vector-width=512)
set(TENON_ISA_FLAGS_avx512_vnni ${TENON_ISA_FLAGS_avx512} -mavx512vnni)
set(TENON_ISA_FLAGS_avx512_bf16 ${TENON_ISA_FLAGS_avx512_vnni} -mavx512bf16)
set(TENON_ISA_FLAGS_neon -DTENON_NEON)
set(TENON_ISA_FLAGS_neon_dotprod ${TENON_ISA_FLAGS_neon} -march=armv8.2-a+dotprod)
set(TENON_ISA_FLAGS_neon_i8mm ${TENON_ISA_FLAGS_neon} -march=armv8.2-a+dotprod+i8mm)
set(TENON_ISA_FLAGS_neon_bf16 ${TENON_ISA_FLAGS_neon} -march=armv8.2-a+dotprod+i8mm+bf16)

# The sets that the processor which is built for may have.
set(TENON_ISAS portable)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  list(APPEND TENON_ISAS avx2 avx_vnni avx512 avx512_vnni avx512_bf16)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  list(APPEND TENON_ISAS neon neon_dotprod neon_i8mm neon_bf16)
endif()

# tenon_format_sources(<list> <template> <isa> [TOGETHER <count>] <name>=<type>…)
#
# Sources for one instruction set made from <template>, which is repeated for every format with
# @name@, @type@ and @isa@ filled in. TOGETHER says how many formats share a source (by default 1):
# each source reads the headers once, and sources compile side by side. An <isa> of "portable" runs
# on any processor; one of another processor than the one that is built for has no sources.
function(tenon_format_sources list template isa)
  cmake_parse_arguments(PARSE_ARGV 3 ARG "" "TOGETHER" "")
  if(NOT ARG_TOGETHER)
    set(ARG_TOGETHER 1)
  endif()
  set(made "")
  if(NOT isa IN_LIST TENON_ISAS)
    set(${list} "" PARENT_SCOPE)
    return()
  endif()
  set(condition 1)
  if(isa MATCHES "^avx")
    set(condition "defined(__x86_64__)")
  endif()
  cmake_path(GET template STEM stem)
  cmake_path(ABSOLUTE_PATH template)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${template})
  file(READ ${template} wanted)
  set(text "")
  set(count 0)
  list(LENGTH ARG_UNPARSED_ARGUMENTS left)
  foreach(item IN LISTS ARG_UNPARSED_ARGUMENTS)
    string(REGEX MATCH "^([^=]+)=(.+)$" item "${item}")
    set(name ${CMAKE_MATCH_1})
    set(type "${CMAKE_MATCH_2}")
    if(count EQUAL 0)
      set(source ${CMAKE_CURRENT_BINARY_DIR}/${isa}_${stem}_${name}.cc)
    endif()
    string(CONFIGURE "${wanted}" filled @ONLY)
    string(APPEND text "${filled}")
    math(EXPR count "${count} + 1")
    math(EXPR left "${left} - 1")
    if(count EQUAL ARG_TOGETHER OR left EQUAL 0)
      file(CONFIGURE OUTPUT ${source} CONTENT "${text}" @ONLY)
      list(APPEND made ${source})
      set(text "")
      set(count 0)
    endif()
  endforeach()
  # TOGETHER has said how many share a source, so a unity build adds nothing.
  set_source_files_properties(${made} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  set(${list} ${made} PARENT_SCOPE)
endfunction()

function(tenon_add_plugin target)
  cmake_parse_arguments(ARG "NO_INSTALL" "" "SOURCES;ISA_SOURCES;INCLUDES" ${ARGN})
  add_library(${target} MODULE ${ARG_SOURCES})
  set(isa "")
  foreach(item ${ARG_ISA_SOURCES})
    if(DEFINED TENON_ISA_FLAGS_${item})
      set(isa ${item})
    elseif(isa IN_LIST TENON_ISAS)
      target_sources(${target} PRIVATE ${item})
      set_source_files_properties(${item} PROPERTIES COMPILE_OPTIONS "${TENON_ISA_FLAGS_${isa}}")
    endif()
  endforeach()
  if(TARGET tenon::sdk)
    target_link_libraries(${target} PRIVATE tenon::sdk)
  endif()
  target_include_directories(${target} PRIVATE ${ARG_INCLUDES})
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_compile_options(${target} PRIVATE -fvisibility=hidden -fvisibility-inlines-hidden
                                           -ffp-contract=off)
  if(TENON_DEVELOPER)
    target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Werror)
  endif()
  target_link_options(
    ${target} PRIVATE -Wl,--version-script=${TENON_PLUGIN_VERSION_SCRIPT}
    -Wl,-z,nodelete -Wl,-z,now -Wl,-z,relro -Wl,--gc-sections)
  if(NOT TENON_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
  set_target_properties(
    ${target} PROPERTIES PREFIX "libtenon-" LINK_DEPENDS ${TENON_PLUGIN_VERSION_SCRIPT}
                         LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/plugins)
  if(NOT ARG_NO_INSTALL)
    include(GNUInstallDirs)
    install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/tenon/plugins)
  endif()
endfunction()
