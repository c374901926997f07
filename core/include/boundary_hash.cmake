# The boundary's name: a hash of what a compiler sees of its headers, so that a comment or a line's
# end refuses no plugin and any declaration does.
#   tenon_boundary_hash(RESULT HEADER…)
function(tenon_boundary_hash result)
  set(boundary_text "")
  foreach(header ${ARGN})
    # Boundary headers have comments of the form // alone, and no // inside a text.
    file(READ ${header} text)
    string(REGEX REPLACE "//[^\n]*" "" stripped "${text}")
    string(REGEX REPLACE "[ \t\r\n]+" " " stripped "${stripped}")
    get_filename_component(name ${header} NAME)
    string(APPEND boundary_text "${name}\n${stripped}\n")
  endforeach()
  string(SHA256 hash "${boundary_text}")
  string(SUBSTRING ${hash} 0 16 hash)
  set(${result} ${hash} PARENT_SCOPE)
endfunction()
