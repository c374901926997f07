# Files that distributions install next to the program: manual pages and completions, made from its
# own options by running it once it is linked, and the service. Where the program is built for
# another machine, or with sanitizers, it is not run, and they are left out.

function(tenon_install_packaging)
  # Where the program is going to be is known when it is installed: --prefix may say otherwise.
  install(CODE "
    file(READ \"${PROJECT_SOURCE_DIR}/packaging/systemd/tenon.service\" service)
    string(REPLACE /usr/bin/tenon \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/tenon\" service \"\${service}\")
    file(WRITE \"${PROJECT_BINARY_DIR}/packaging/tenon.service\" \"\${service}\")")
  install(FILES ${PROJECT_BINARY_DIR}/packaging/tenon.service DESTINATION lib/systemd/system)
  if(CMAKE_CROSSCOMPILING OR TENON_SANITIZE)
    return()
  endif()
  set(folder ${PROJECT_BINARY_DIR}/packaging)
  file(MAKE_DIRECTORY ${folder})
  add_custom_command(
    OUTPUT ${folder}/made
    COMMAND tenon man --into ${folder}/man
    COMMAND tenon completion bash > ${folder}/tenon.bash
    COMMAND tenon completion zsh > ${folder}/_tenon
    COMMAND tenon completion fish > ${folder}/tenon.fish
    COMMAND ${CMAKE_COMMAND} -E touch ${folder}/made
    DEPENDS tenon
    VERBATIM)
  add_custom_target(tenon_packaging ALL DEPENDS ${folder}/made)
  install(DIRECTORY ${folder}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
          FILES_MATCHING PATTERN "*.1")
  install(FILES ${folder}/tenon.bash RENAME tenon
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${folder}/_tenon DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${folder}/tenon.fish
          DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endfunction()
