#pragma once

// The only place that includes cuda.h. __CUDA_API_VERSION_INTERNAL leaves every name as it is exported (cuMemAlloc and
// cuMemAlloc_v2 are two functions, none is a macro) and declares the per-thread-stream twins (_ptsz, _ptds) as well; without it
// the header renames calls behind our back.
#if defined(CUDA_VERSION)
#error "include cuda/abi/cuda_types.h before, and instead of, cuda.h"
#endif
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#error "CUDA_API_PER_THREAD_DEFAULT_STREAM changes which streams calls use; never define it here"
#endif
#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>

// After it: what the header at hand may be too old for.
#include "cuda/abi/newer_cuda.h"
