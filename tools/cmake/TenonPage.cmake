# Joins a page of one file from its sources and embeds it:
#
#   tenon_page(server_page HTML page.html STYLES a.css b.css SCRIPTS a.js b.js)
#
# builds the static library tenon_server_page (alias tenon::server_page), which defines what
# core/server/page_parts.h declares. Styles and scripts are joined in this order.

function(tenon_page name)
  cmake_parse_arguments(ARG "" "HTML" "STYLES;SCRIPTS" ${ARGN})
  foreach(kind HTML STYLES SCRIPTS)
    set(${kind} "")
    foreach(file ${ARG_${kind}})
      list(APPEND ${kind} ${CMAKE_CURRENT_SOURCE_DIR}/${file})
    endforeach()
  endforeach()
  set(script ${PROJECT_SOURCE_DIR}/tools/cmake/embed_page.cmake)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc)
  add_custom_command(
    OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} "-DHTML=${HTML}" "-DSTYLES=${STYLES}" "-DSCRIPTS=${SCRIPTS}"
            "-DOUTPUT=${source}" -P ${script}
    DEPENDS ${HTML} ${STYLES} ${SCRIPTS} ${script}
    COMMENT "Joining the page ${name}"
    VERBATIM)
  add_library(tenon_${name} STATIC ${source})
  add_library(tenon::${name} ALIAS tenon_${name})
  tenon_target_defaults(tenon_${name})
  set_target_properties(tenon_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(tenon_${name} PRIVATE ${PROJECT_SOURCE_DIR})
endfunction()
