# Precompiled headers: for everything in the builds that exist to find faults (the presets asan, tsan and analysis), for the tests in the
# release build. What is shipped is compiled without them, and so proves that every file includes what it uses; the presets dev and
# clang prove it of the tests.

set(WARPLINE_PRECOMPILE "" CACHE STRING "Whose headers are compiled once for all files: tests, all, or empty for none")

# warpline_precompile(NAME headers…): the standard library and the given headers, once for all files of a target. A header is a path
# below the source folder, or <in brackets>.
function(warpline_precompile name)
  if(NOT WARPLINE_PRECOMPILE STREQUAL "all" OR NOT TARGET ${name})
    return()
  endif()
  set(headers "${CMAKE_SOURCE_DIR}/cmake/precompiled/standard.h")
  foreach(header IN LISTS ARGN)
    if(header MATCHES "^<")
      list(APPEND headers "${header}")
    else()
      list(APPEND headers "${CMAKE_SOURCE_DIR}/${header}")
    endif()
  endforeach()
  target_precompile_headers(${name} PRIVATE ${headers})
  warpline_cacheable(${name})
endfunction()

# warpline_precompiled_as(NAME OTHER): uses the precompiled headers of a target that is compiled with the same flags.
function(warpline_precompiled_as name other)
  if(WARPLINE_PRECOMPILE STREQUAL "all" AND TARGET ${name} AND TARGET ${other})
    target_precompile_headers(${name} REUSE_FROM ${other})
    warpline_cacheable(${name})
  endif()
endfunction()

# ccache follows a precompiled header of gcc only if the compiler says in its output that it has read one (and CCACHE_SLOPPINESS
# allows it: scripts/lib.sh).
function(warpline_cacheable name)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${name} PRIVATE -fpch-preprocess)
  endif()
endfunction()

# warpline_precompiled_test(NAME): the headers of GoogleTest, compiled once for all tests.
function(warpline_precompiled_test name)
  if(NOT WARPLINE_PRECOMPILE)
    return()
  endif()
  if(NOT TARGET warpline_test_headers)
    add_library(warpline_test_headers OBJECT "${CMAKE_SOURCE_DIR}/cmake/precompiled/test.cpp")
    target_link_libraries(warpline_test_headers PRIVATE warpline_flags wl_cuda_headers GTest::gtest GTest::gmock)
    # As programs are compiled: gcc takes no header for a program that was compiled for a library.
    set_target_properties(warpline_test_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(warpline_test_headers PRIVATE -fPIE ${WARPLINE_TEST_OPTIONS})
    target_precompile_headers(warpline_test_headers PRIVATE "${CMAKE_SOURCE_DIR}/cmake/precompiled/standard.h" <gtest/gtest.h>
      <gmock/gmock.h> "${CMAKE_SOURCE_DIR}/cuda/abi/cuda_types.h")
    warpline_cacheable(warpline_test_headers)
  endif()
  target_precompile_headers(${name} REUSE_FROM warpline_test_headers)
  warpline_cacheable(${name})
endfunction()
