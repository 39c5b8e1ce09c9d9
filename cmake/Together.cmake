# Files are compiled together (CMAKE_UNITY_BUILD, in the presets): a file costs mostly what its headers cost, and files compiled together
# read them once, so that everything builds in a third of the time. Together they share their anonymous namespaces: names there differ
# within a target. Where they cannot, UNITY_BUILD OFF or SKIP_UNITY_BUILD_INCLUSION stands beside the target, with the reason.
#
# The presets dev and clang compile each file alone, and so prove that each includes what it uses (scripts/test --all).

set(CMAKE_UNITY_BUILD_BATCH_SIZE 24)

# warpline_use_test_headers(NAME): the headers of GoogleTest, compiled once for all tests.
function(warpline_use_test_headers name)
  if(NOT CMAKE_UNITY_BUILD)
    return()
  endif()
  if(NOT TARGET warpline_test_headers)
    add_library(warpline_test_headers OBJECT "${CMAKE_SOURCE_DIR}/cmake/precompiled/test.cpp")
    target_link_libraries(warpline_test_headers PRIVATE warpline_flags wl_cuda_headers GTest::gtest GTest::gmock)
    # As programs are compiled: gcc takes no header for a program that was compiled for a library.
    set_target_properties(warpline_test_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF UNITY_BUILD OFF)
    target_compile_options(warpline_test_headers PRIVATE -fPIE ${WARPLINE_TEST_OPTIONS})
    target_precompile_headers(warpline_test_headers PRIVATE "${CMAKE_SOURCE_DIR}/cmake/precompiled/standard.h" <gtest/gtest.h>
      <gmock/gmock.h> "${CMAKE_SOURCE_DIR}/cuda/abi/cuda_types.h")
    warpline_cacheable(warpline_test_headers)
  endif()
  target_precompile_headers(${name} REUSE_FROM warpline_test_headers)
  warpline_cacheable(${name})
endfunction()

# ccache follows a precompiled header of gcc only if the compiler says in its output that it has read one (and CCACHE_SLOPPINESS
# allows it: scripts/lib.sh).
function(warpline_cacheable name)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${name} PRIVATE -fpch-preprocess)
  endif()
endfunction()
