# tenon_weight_formats(<list> <skipped codes>)
#
# <name>=<struct of the SDK> of every format of weights that has kernels of its own, for
# tenon_format_sources; without those of <skipped codes> (integers, levels, floats or none). They are
# the rows of core/include/tenon/formats/weight_formats.def whose base is the format itself.
set(TENON_WEIGHT_FORMATS ${PROJECT_SOURCE_DIR}/core/include/tenon/formats/weight_formats.def)
function(tenon_weight_formats list skipped)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${TENON_WEIGHT_FORMATS})
  file(STRINGS ${TENON_WEIGHT_FORMATS} rows REGEX "^TENON_(GGUF_)?FORMAT\\(.*\\)$")
  set(formats "")
  foreach(row IN LISTS rows)
    string(REGEX MATCH "\\(([a-z0-9_]+), .*, ([a-z]+), ([a-z0-9_]+), ([A-Z].*)\\)$" parts ${row})
    if(NOT parts)
      message(FATAL_ERROR "${TENON_WEIGHT_FORMATS}: no row of a format: ${row}")
    endif()
    if(CMAKE_MATCH_1 STREQUAL CMAKE_MATCH_3 AND NOT CMAKE_MATCH_2 STREQUAL skipped)
      list(APPEND formats "${CMAKE_MATCH_1}=sdk::${CMAKE_MATCH_4}")
    endif()
  endforeach()
  set(${list} ${formats} PARENT_SCOPE)
endfunction()
