# Code made at build time, always below the build folder and never in git.

set(WARPLINE_GENERATED "${CMAKE_BINARY_DIR}/generated")

# warpline_capnp(NAME schemas…): a static library of the C++ code of hand-written schemas; headers are included as
# "<path of the schema>.h" below the generated folder.
function(warpline_capnp name)
  set(sources)
  foreach(schema IN LISTS ARGN)
    file(RELATIVE_PATH relative "${CMAKE_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}/${schema}")
    set(output "${WARPLINE_GENERATED}/${relative}")
    add_custom_command(
      OUTPUT "${output}.c++" "${output}.h"
      COMMAND ${CMAKE_COMMAND} -E make_directory "${WARPLINE_GENERATED}"
      COMMAND ${CAPNP} compile "-o${CAPNPC_CXX}:${WARPLINE_GENERATED}" "--src-prefix=${CMAKE_SOURCE_DIR}" -I/usr/include
              "${CMAKE_CURRENT_SOURCE_DIR}/${schema}"
      DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${schema}"
      COMMENT "Cap'n Proto ${relative}" VERBATIM)
    list(APPEND sources "${output}.c++")
  endforeach()
  add_library(${name} STATIC ${sources})
  target_include_directories(${name} SYSTEM PUBLIC "${WARPLINE_GENERATED}")
  target_link_libraries(${name} PUBLIC warpline_capnp_runtime)
endfunction()
