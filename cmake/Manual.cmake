# Manual pages, made at build time by the programs that they are about, from the descriptions that make --help and
# docs/configuration.md. Not by programs that sanitizers watch: those are not installed.

set(WARPLINE_MANUAL_PAGES)

# warpline_manual(PAGE TARGET arguments…): a page, which the target writes to the file that is its last argument.
function(warpline_manual page target)
  if(NOT TARGET ${target} OR WARPLINE_SANITIZE)
    return()
  endif()
  string(REGEX REPLACE ".*\\." "" number "${page}")
  set(folder "${CMAKE_BINARY_DIR}/share/man/man${number}")
  add_custom_command(
    OUTPUT "${folder}/${page}"
    COMMAND ${CMAKE_COMMAND} -E make_directory "${folder}"
    COMMAND ${target} ${ARGN} "${folder}/${page}"
    DEPENDS ${target} COMMENT "Manual page ${page}" VERBATIM)
  set(WARPLINE_MANUAL_PAGES ${WARPLINE_MANUAL_PAGES} "${folder}/${page}" PARENT_SCOPE)
endfunction()

warpline_manual(warpline.1 warpline --manual-page)
warpline_manual(warpline-bench.1 warpline-bench --manual-page)
warpline_manual(gpu-server.8 gpu-server --manual-page)
warpline_manual(warpline-server.toml.5 warpline-options --manual server)
warpline_manual(warpline-client.toml.5 warpline-options --manual client)
warpline_manual(warpline-softgpu.7 warpline-options --manual software)
if(WARPLINE_MANUAL_PAGES)
  add_custom_target(warpline_manual ALL DEPENDS ${WARPLINE_MANUAL_PAGES})
  install(DIRECTORY "${CMAKE_BINARY_DIR}/share/man" DESTINATION share)
endif()
