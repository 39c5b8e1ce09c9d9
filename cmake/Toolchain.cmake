# Compiler settings that hold for every target of ours, and the shapes of target that we have.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# The layout that scripts and users rely on: bin/, lib/ and lib/warpline/ below the build folder.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib/static")

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE}")
endif()

# What nvcc makes of sources that never change is made once for all build folders.
set(WARPLINE_NVCC_OUTPUT "${CMAKE_SOURCE_DIR}/build/nvcc" CACHE PATH "Where tests keep what nvcc has made")

add_library(warpline_flags INTERFACE)
target_compile_options(warpline_flags INTERFACE -Wall -Wextra -Werror -ffp-contract=off -fno-math-errno)
target_include_directories(warpline_flags INTERFACE "${CMAKE_SOURCE_DIR}")
target_compile_definitions(warpline_flags INTERFACE "WARPLINE_VERSION=\"${PROJECT_VERSION}\"")
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  target_compile_options(warpline_flags INTERFACE -Wthread-safety)
endif()
if(WARPLINE_SANITIZE)
  target_compile_options(warpline_flags INTERFACE "-fsanitize=${WARPLINE_SANITIZE}" -fno-omit-frame-pointer)
  target_link_options(warpline_flags INTERFACE "-fsanitize=${WARPLINE_SANITIZE}")
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    target_link_options(warpline_flags INTERFACE -fuse-ld=lld)
    if(WARPLINE_SANITIZE MATCHES address)
      # The run time comes from a shared library, so that it can be loaded before programs that are not instrumented.
      execute_process(COMMAND "${CMAKE_CXX_COMPILER}" --print-runtime-dir OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE)
      target_compile_options(warpline_flags INTERFACE -shared-libsan)
      target_link_options(warpline_flags INTERFACE -shared-libsan "-Wl,-rpath,${folder}")
    endif()
  endif()
  if(WARPLINE_SANITIZE STREQUAL thread)
    target_compile_definitions(warpline_flags INTERFACE WARPLINE_THREAD_SANITIZER)  # it leaves few addresses to programs
  endif()
  if(WARPLINE_SANITIZE MATCHES undefined)
    # CUDA's enumerations are C's: programs and newer drivers put any integer there, and refusing it is our business. CUDA's functions
    # are looked up by name and called through the type that the caller has.
    target_compile_options(warpline_flags INTERFACE -fno-sanitize-recover=undefined -fno-sanitize=enum)
    if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
      target_compile_options(warpline_flags INTERFACE -fno-sanitize=function)
    endif()
  endif()
else()
  # A build made here runs on a GPU node: only libc is taken from the machine. The sanitizers need the shared run time.
  target_link_options(warpline_flags INTERFACE -static-libstdc++ -static-libgcc)
endif()

# Tests are compiled as fast as can be: what they do takes no time, and they are most of what is compiled.
set(WARPLINE_TEST_OPTIONS -O0)

# What runs once for each command that a person types: the code of its command line is as large as that of a server.
set(WARPLINE_COMMAND_OPTIONS "$<$<CONFIG:Release>:-O1>")

# What reads images and programs byte by byte. Under the address sanitizer tests have it read tens of thousands of damaged ones, which
# costs more than to optimise it.
set(WARPLINE_READER_OPTIONS)
if(WARPLINE_SANITIZE MATCHES address)
  set(WARPLINE_READER_OPTIONS -O1)
endif()

# warpline_library(NAME SOURCES… LINK targets…): a static library of ours.
function(warpline_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC warpline_flags ${arg_LINK} PRIVATE ${arg_PRIVATE})
endfunction()

# warpline_program(NAME SOURCES… LINK targets…): an executable in bin/.
function(warpline_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE warpline_flags ${arg_LINK} Threads::Threads ${CMAKE_DL_LIBS})
  warpline_for_old_glibc(${name})
endfunction()

# warpline_shared(NAME OUTPUT file FOLDER folder EXPORTS map SOURCES… LINK targets…): a shared library that exports what the
# linker version script names, and nothing else. Hiding the rest is also what allows Debian's static archives, which are not
# compiled for shared objects, to become part of one.
function(warpline_shared name)
  cmake_parse_arguments(arg "" "OUTPUT;FOLDER;EXPORTS;SONAME" "SOURCES;LINK" ${ARGN})
  add_library(${name} MODULE ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE warpline_flags ${arg_LINK} Threads::Threads ${CMAKE_DL_LIBS})
  set_target_properties(${name} PROPERTIES PREFIX "" SUFFIX "" OUTPUT_NAME "${arg_OUTPUT}" LINK_DEPENDS "${arg_EXPORTS}"
    LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib/${arg_FOLDER}")
  warpline_for_old_glibc(${name})
  target_link_options(${name} PRIVATE "-Wl,--version-script=${arg_EXPORTS}")
  if(arg_SONAME)
    target_link_options(${name} PRIVATE "-Wl,-soname,${arg_SONAME}")
  endif()
  if(NOT WARPLINE_SANITIZE)
    target_link_options(${name} PRIVATE -Wl,-z,defs)
  endif()
endfunction()

# warpline_test(NAME SOURCES… LINK targets… LABELS labels…): a GoogleTest program, registered with CTest.
function(warpline_test name)
  if(NOT WARPLINE_TESTS)
    return()
  endif()
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;LINK;LABELS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE warpline_flags ${arg_LINK} GTest::gtest_main GTest::gmock Threads::Threads ${CMAKE_DL_LIBS})
  target_compile_options(${name} PRIVATE ${WARPLINE_TEST_OPTIONS})
  warpline_use_test_headers(${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT})
  if(WARPLINE_NVCC)
    # For tests that ask ptxas.
    get_filename_component(toolkit "${WARPLINE_NVCC}" DIRECTORY)
    set_tests_properties(${name} PROPERTIES ENVIRONMENT_MODIFICATION "PATH=path_list_append:${toolkit}")
  endif()
  if(WARPLINE_SANITIZE STREQUAL thread)
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/tsan-suppressions.txt")
  endif()
endfunction()
