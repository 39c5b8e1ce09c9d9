# What we use from Debian, linked statically (libc aside), and the headers of the CUDA toolkit.

find_package(Threads REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
if(WARPLINE_TESTS)
  find_package(GTest REQUIRED)
endif()

# wl_static(NAME archive): an imported static library found by its archive's name.
function(wl_static name archive)
  find_library(${name}_ARCHIVE NAMES ${archive} REQUIRED)
  add_library(${name} STATIC IMPORTED GLOBAL)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION "${${name}_ARCHIVE}")
endfunction()

wl_static(wl_crypto libcrypto.a)
wl_static(wl_ssl libssl.a)
target_link_libraries(wl_ssl INTERFACE wl_crypto)
# Of glibc's resolver, what reads messages is in a library of its own, a part of glibc: its archive has glibc's private names.
add_library(wl_resolv INTERFACE)
target_link_libraries(wl_resolv INTERFACE resolv)
wl_static(wl_ipsec_mb libIPSec_MB.a)
wl_static(wl_kj libkj.a)
wl_static(wl_capnp_core libcapnp.a)
target_link_libraries(wl_capnp_core INTERFACE wl_kj)
wl_static(wl_lz4 liblz4.a)
wl_static(wl_zstd libzstd.a)
wl_static(wl_xxhash libxxhash.a)

# Asio stand-alone and fmt are used as headers: Debian ships no static archive of the latter.
add_library(wl_asio INTERFACE)
target_compile_definitions(wl_asio INTERFACE ASIO_STANDALONE ASIO_NO_DEPRECATED)
add_library(wl_fmt INTERFACE)
target_compile_definitions(wl_fmt INTERFACE FMT_HEADER_ONLY)

find_program(CAPNP capnp REQUIRED)
find_program(CAPNPC_CXX capnpc-c++ REQUIRED)

# cuda.h, for the types and prototypes of the driver interface. No library of the toolkit is linked and no GPU is needed.
find_path(WARPLINE_CUDA_INCLUDE cuda.h
  HINTS "${CMAKE_SOURCE_DIR}/.cuda/include" ENV CUDA_HOME ENV CUDA_PATH
  PATHS /usr/local/cuda/include /usr/include
  REQUIRED)
add_library(wl_cuda_headers INTERFACE)
target_include_directories(wl_cuda_headers SYSTEM INTERFACE "${WARPLINE_CUDA_INCLUDE}")
# For tests; its other tools are beside it.
find_program(WARPLINE_NVCC nvcc HINTS "${CMAKE_SOURCE_DIR}/.cuda/bin" "${WARPLINE_CUDA_INCLUDE}/../bin")
