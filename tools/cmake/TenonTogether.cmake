# Compiles several sources of a target in one go (CMake's unity builds), which halves the time of a
# whole build: most of it goes into headers.
#
# Anonymous namespaces become one, so together.py puts sources together only where nothing can come
# to mean something else. A source that takes on a word of its neighbours' is put elsewhere when
# CMake runs again; `cmake --build` alone does not look into sources.
# Tests are written together instead, into files of the build folder, with a namespace around each.
# -DTENON_UNITY=OFF compiles each source by itself.
#
# Called once, after all targets.

# No unit may take more than 20 s (tools/build_budget).
set(TENON_MOST_TOGETHER 12)
set(TENON_MOST_LINES_TOGETHER 1800)

function(tenon_compile_together)
  if(NOT TENON_UNITY)
    return()
  endif()
  set(program ${PROJECT_SOURCE_DIR}/tools/cmake/together.py)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${program})
  tenon_targets_below(${PROJECT_SOURCE_DIR} targets)
  set(wanted "")
  foreach(target ${targets})
    get_target_property(sources ${target} SOURCES)
    get_target_property(folder ${target} SOURCE_DIR)
    list(FILTER sources INCLUDE REGEX "^[^$].*\\.cc$")
    list(LENGTH sources count)
    if(count GREATER 1)
      string(APPEND wanted "${target};${folder};${sources}\n")
    endif()
  endforeach()
  file(WRITE ${PROJECT_BINARY_DIR}/together.txt "${wanted}")
  execute_process(
    COMMAND ${Python3_EXECUTABLE} ${program} ${PROJECT_SOURCE_DIR} ${TENON_MOST_TOGETHER}
            ${TENON_MOST_LINES_TOGETHER} ${PROJECT_BINARY_DIR}/together
    INPUT_FILE ${PROJECT_BINARY_DIR}/together.txt
    OUTPUT_FILE ${PROJECT_BINARY_DIR}/together.cmake COMMAND_ERROR_IS_FATAL ANY)
  include(${PROJECT_BINARY_DIR}/together.cmake)
  if(written)
    add_custom_command(
      OUTPUT ${PROJECT_BINARY_DIR}/together/written
      BYPRODUCTS ${written}
      COMMAND ${Python3_EXECUTABLE} ${program} --write ${PROJECT_BINARY_DIR}/together
      COMMAND ${CMAKE_COMMAND} -E touch ${PROJECT_BINARY_DIR}/together/written
      DEPENDS ${program} ${written_from} ${PROJECT_BINARY_DIR}/together/groups.json
      COMMENT "Writing tests together"
      VERBATIM)
    add_custom_target(tenon_tests_together DEPENDS ${PROJECT_BINARY_DIR}/together/written)
  endif()
  set_target_properties(${grouped} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # All sources are headers now, where GCC doubts members of types from anonymous namespaces.
    foreach(target ${grouped})
      target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
    endforeach()
  endif()
endfunction()

# All targets of a folder and the folders below it.
function(tenon_targets_below folder result)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(below ${folders})
    tenon_targets_below(${below} found)
    list(APPEND targets ${found})
  endforeach()
  set(${result} ${targets} PARENT_SCOPE)
endfunction()
