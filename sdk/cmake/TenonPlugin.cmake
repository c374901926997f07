# tenon_add_plugin(<target> SOURCES <file>… [ISA_SOURCES <isa> <file>… …] [INCLUDES <dir>…])
#
# Builds libtenon-<target>.so with every flag that a plugin needs: hidden symbols with one export,
# no undefined symbol, never unloaded, no contraction of floating point, and installs it where
# `tenon` looks. ISA sources are compiled with the instruction set's flags; `isa` is one of
# avx2, avx512, avx512_vnni, avx512_bf16. Works in the source tree and after
# find_package(tenon).
# Kernels without optimisation are a hundred times slower, so a build that asks for nothing gets it.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  message(STATUS "tenon: CMAKE_BUILD_TYPE is empty, building Release")
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug, RelWithDebInfo or MinSizeRel" FORCE)
endif()
set(TENON_PLUGIN_VERSION_SCRIPT ${CMAKE_CURRENT_LIST_DIR}/plugin.map)

set(TENON_ISA_FLAGS_avx2 -mavx2 -mfma -mf16c)
set(TENON_ISA_FLAGS_avx512 ${TENON_ISA_FLAGS_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl
                           -mprefer-vector-width=512)
set(TENON_ISA_FLAGS_avx512_vnni ${TENON_ISA_FLAGS_avx512} -mavx512vnni)
set(TENON_ISA_FLAGS_avx512_bf16 ${TENON_ISA_FLAGS_avx512_vnni} -mavx512bf16)

# tenon_format_sources(<list> <template> <isa> <name>=<type>…)
#
# Sources for one instruction set made from <template>, one a format, with @name@, @type@ and @isa@
# filled in: kernels of many formats compile in pieces, side by side. An <isa> of "portable" runs
# on any processor.
function(tenon_format_sources list template isa)
  set(made "")
  set(condition "defined(__x86_64__)")
  if(isa STREQUAL portable)
    set(condition 1)
  endif()
  foreach(item ${ARGN})
    string(REGEX MATCH "^([^=]+)=(.+)$" item ${item})
    set(name ${CMAKE_MATCH_1})
    set(type ${CMAKE_MATCH_2})
    configure_file(${template} ${isa}_${name}.cc @ONLY)
    list(APPEND made ${CMAKE_CURRENT_BINARY_DIR}/${isa}_${name}.cc)
  endforeach()
  set(${list} ${made} PARENT_SCOPE)
endfunction()

function(tenon_add_plugin target)
  cmake_parse_arguments(ARG "NO_INSTALL" "" "SOURCES;ISA_SOURCES;INCLUDES" ${ARGN})
  add_library(${target} MODULE ${ARG_SOURCES})
  set(isa "")
  foreach(item ${ARG_ISA_SOURCES})
    if(DEFINED TENON_ISA_FLAGS_${item})
      set(isa ${item})
    else()
      target_sources(${target} PRIVATE ${item})
      if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
        set_source_files_properties(${item} PROPERTIES COMPILE_OPTIONS "${TENON_ISA_FLAGS_${isa}}")
      endif()
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
    -Wl,-z,nodelete -Wl,-z,now -Wl,-z,relro)
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
