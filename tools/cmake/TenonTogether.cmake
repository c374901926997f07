# Compiles several sources of a target in one go (CMake's unity builds), which halves the time of a
# whole build: most of it goes into headers.
#
# Anonymous namespaces become one, so sources stand together only where no name of one's anonymous
# namespace is a word of another's text, or a name that some header defines: nothing can come to
# mean something else. A source that takes on a word of its neighbours' is put elsewhere
# when CMake runs again; `cmake --build` alone does not look into sources.
# -DTENON_UNITY=OFF compiles each source by itself.
#
# Called once, after all targets.

set(TENON_MOST_TOGETHER 8)

function(tenon_compile_together)
  if(NOT TENON_UNITY)
    return()
  endif()
  tenon_names_in_headers(taken)
  tenon_targets_below(${PROJECT_SOURCE_DIR} targets)
  foreach(target ${targets})
    tenon_group_sources(${target} "${taken}")
  endforeach()
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

# What the project's headers define outside classes.
function(tenon_names_in_headers result)
  set(all "")
  foreach(folder core plugins sdk tests tools)
    file(GLOB_RECURSE headers ${PROJECT_SOURCE_DIR}/${folder}/*.h)
    foreach(header ${headers})
      tenon_read_source(${header} text)
      tenon_names_in("${text}" names)
      list(APPEND all ${names})
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES all)
  set(${result} "${all}" PARENT_SCOPE)
endfunction()

function(tenon_group_sources target taken)
  get_target_property(sources ${target} SOURCES)
  get_target_property(folder ${target} SOURCE_DIR)
  list(FILTER sources INCLUDE REGEX "^[^$].*\\.cc$")
  list(LENGTH sources count)
  if(count LESS 2)
    return()
  endif()
  list(SORT sources)
  set(groups 0)
  foreach(source ${sources})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder} OUTPUT_VARIABLE path)
    if(NOT EXISTS ${path})
      continue()
    endif()
    tenon_read_source(${path} text)
    tenon_anonymous_part("${text}" own)
    tenon_names_in("${own}" names)
    tenon_share("${names}" "${taken}" alone)
    # What replaces the program's operator new must not be seen by others' code.
    if(alone OR text MATCHES "\nvoid\\* operator new")
      continue()
    endif()
    string(REGEX MATCHALL "[A-Za-z_][A-Za-z0-9_]*" words "${text}")
    list(REMOVE_DUPLICATES words)
    set(chosen ${groups})
    foreach(group RANGE ${groups})
      if(group EQUAL groups OR NOT size_${group} LESS TENON_MOST_TOGETHER)
        continue()
      endif()
      tenon_share("${names}" "${words_${group}}" shadows)
      tenon_share("${names_${group}}" "${words}" shadowed)
      if(NOT shadows AND NOT shadowed)
        set(chosen ${group})
        break()
      endif()
    endforeach()
    if(chosen EQUAL groups)
      foreach(list names words)
        set(${list}_${chosen} "")
      endforeach()
      set(size_${chosen} 0)
      math(EXPR groups "${groups} + 1")
    endif()
    list(APPEND names_${chosen} ${names})
    list(APPEND words_${chosen} ${words})
    list(REMOVE_DUPLICATES words_${chosen})
    math(EXPR size_${chosen} "${size_${chosen}} + 1")
    set_source_files_properties(${source} TARGET_DIRECTORY ${target}
                                PROPERTIES UNITY_GROUP ${chosen})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # All sources are headers now, where GCC doubts members of types from anonymous namespaces.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

# Whether two lists, neither with duplicates, have an element in common.
function(tenon_share some others result)
  list(LENGTH some count)
  list(LENGTH others more)
  set(all ${some} ${others})
  list(REMOVE_DUPLICATES all)
  list(LENGTH all different)
  math(EXPR same "${count} + ${more} - ${different}")
  set(${result} ${same} PARENT_SCOPE)
endfunction()

# A source's text without comments and literals, members of objects and qualified names; ";", "["
# and "]", which would tear CMake's lists apart, are "=" or gone.
function(tenon_read_source path result)
  file(READ ${path} text)
  string(REPLACE ";" "=" text "\n${text}")
  string(REPLACE "\n}  // namespace\n" "\n}@end\n" text "${text}")
  string(REGEX REPLACE "//[^\n]*" "" text "${text}")
  string(REGEX REPLACE "\"([^\"\\\n]|\\\\.)*\"" "\"\"" text "${text}")
  string(REGEX REPLACE "\\[\\[[^]]*\\]\\] *" "" text "${text}")
  string(REGEX REPLACE "[][]" " " text "${text}")
  string(REGEX REPLACE "(\\.|->|::) *[A-Za-z_][A-Za-z0-9_]*" "@" text "${text}")
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

# From the begin of a source's first anonymous namespace to the end of its last, as clang-format
# writes them.
function(tenon_anonymous_part text result)
  string(FIND "${text}" "\nnamespace {" first)
  string(FIND "${text}" "\n}@end" last REVERSE)
  set(part "")
  if(last GREATER first AND NOT first EQUAL -1)
    math(EXPR length "${last} - ${first}")
    string(SUBSTRING "${text}" ${first} ${length} part)
  endif()
  set(${result} "${part}" PARENT_SCOPE)
endfunction()

# What a text defines at the first column of a line, each name once.
function(tenon_names_in text result)
  string(REGEX MATCHALL "\n[A-Za-z_][^\n=({:]*[=({:]" heads "${text}")
  set(names "")
  foreach(head ${heads})
    if(NOT head MATCHES "^\n(namespace|using namespace|template|extern|public|private|protected|TEST|TYPED_TEST|INSTANTIATE|TENON|BENCHMARK|static_assert|operator|(class|struct) [A-Za-z0-9_]+=)"
       AND head MATCHES "([A-Za-z0-9_@]+)( final)? *[0-9A-Za-z_ ]*[=({:]$")
      string(REGEX MATCH "([A-Za-z0-9_@]+)( final)? *[=({:]$" found "${head}")
      list(APPEND names ${CMAKE_MATCH_1})
    endif()
  endforeach()
  # Members are defined in their class's name.
  list(FILTER names EXCLUDE REGEX "@")
  list(REMOVE_DUPLICATES names)
  set(${result} "${names}" PARENT_SCOPE)
endfunction()
