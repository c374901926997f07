# Writes OUTPUT: the page of HTML with STYLES in place of its line "/*styles*/" and SCRIPTS in place
# of "/*scripts*/", as five literals, so that the program can name what is inline (page.cc).
cmake_policy(VERSION 3.25)

function(read_all files result)
  set(all "")
  foreach(file ${files})
    file(READ ${file} text)
    string(APPEND all "${text}")
  endforeach()
  set(${result} "${all}" PARENT_SCOPE)
endfunction()

# The text before a mark that occurs once, and after it.
function(cut text mark front back)
  string(FIND "${text}" "${mark}" place)
  string(FIND "${text}" "${mark}" last REVERSE)
  if(place EQUAL -1 OR NOT place EQUAL last)
    message(FATAL_ERROR "${HTML} must have \"${mark}\" once")
  endif()
  string(LENGTH "${mark}" length)
  string(SUBSTRING "${text}" 0 ${place} before)
  math(EXPR place "${place} + ${length}")
  string(SUBSTRING "${text}" ${place} -1 after)
  set(${front} "${before}" PARENT_SCOPE)
  set(${back} "${after}" PARENT_SCOPE)
endfunction()

read_all("${HTML}" html)
read_all("${STYLES}" styles)
read_all("${SCRIPTS}" scripts)
foreach(inline styles scripts)
  if("${${inline}}" MATCHES "</(style|script)|\\)page\"")
    message(FATAL_ERROR "the page's ${inline} have \"${CMAKE_MATCH_0}\", which would end them early")
  endif()
endforeach()
cut("${html}" "/*styles*/" head rest)
cut("${rest}" "/*scripts*/" middle tail)
file(WRITE ${OUTPUT}
     "#include \"core/server/page_parts.h\"\n\nnamespace tenon::server {\n"
     "const PageParts kPageParts = {R\"page(${head})page\", R\"page(${styles})page\",\n"
     "R\"page(${middle})page\", R\"page(${scripts})page\", R\"page(${tail})page\"};\n"
     "}  // namespace tenon::server\n")
