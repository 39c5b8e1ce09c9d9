// The words and CUDA's codes for our own failures.
#include "common/base/result.h"

namespace warpline {

namespace {

struct Row {
    const char* name;
    int cu_result;
};

// In the order of Code. The numbers are CUresult's (CUDA Driver API, Data types, CUresult); docs/errors.md explains the
// choices.
constexpr Row k_rows[] = {
    {"ok", 0},
    {"not configured", 100},
    {"connection refused", 100},
    {"not authenticated", 100},
    {"connection lost", 46},
    {"version mismatch", 803},
    {"server starting", 802},
    {"quota reached", 2},
    {"out of memory", 2},
    {"bad argument", 1},
    {"unknown handle", 400},
    {"unsupported", 801},
    {"denied", 800},
    {"deadline passed", 909},
    {"shutting down", 4},
    {"malformed", 999},
    {"input/output error", 999},
    {"internal error", 999},
};
static_assert(sizeof(k_rows) / sizeof(k_rows[0]) == static_cast<unsigned>(Code::internal) + 1);

}  // namespace

const char* to_string(Code code) { return k_rows[static_cast<unsigned>(code)].name; }

int to_cu_result(Code code) { return k_rows[static_cast<unsigned>(code)].cu_result; }

}  // namespace warpline
