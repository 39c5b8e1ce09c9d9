// How the library's functions are exported.
#pragma once

#define WL_NVML extern "C" __attribute__((visibility("default"), used))
