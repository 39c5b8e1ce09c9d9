// Carries the marks of written memory along with copies, row by row.
#include "softgpu/driver/operations/copy_checks.h"

#include "common/log/log.h"
#include "softgpu/driver/memory/array.h"
#include "softgpu/driver/memory/checks.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

using check::Checker;
using check::WrittenBlock;

namespace {

bool is_host(const CopySide& side) {
    if (side.array != nullptr) return false;
    auto allocation = process().addresses.find(reinterpret_cast<uint64_t>(side.base));
    return allocation == nullptr || allocation->on_host();
}

struct CopyStates {
    std::shared_ptr<WrittenBlock> from, to;
    bool to_host = false;
};

/// True if the row copies uninitialised memory to the host.
bool copy_row(const CopyStates& states, uint64_t to, uint64_t from, uint64_t bytes, uint64_t& first) {
    const bool known_from = states.from != nullptr && states.from->holds(from);
    if (states.to != nullptr && states.to->holds(to)) {
        if (known_from) {
            states.to->copy(to, *states.from, from, bytes);
        } else {
            states.to->write(to, bytes);
        }
        return false;
    }
    return known_from && states.to_host && states.from->lacks(from, bytes, first);
}

}  // namespace

void note_copy(const CopyOperation& operation) {
    Checker* checker = checker_for(check::check_init);
    if (checker == nullptr) return;
    const auto from = reinterpret_cast<uint64_t>(operation.from.base), to = reinterpret_cast<uint64_t>(operation.to.base);
    CopyStates states{checker->written.find(from), checker->written.find(to), is_host(operation.to)};
    if (states.from == nullptr && states.to == nullptr) return;
    bool found = false;
    uint64_t first = 0;
    for (uint64_t z = 0; z < operation.depth; ++z) {
        for (uint64_t y = 0; y < operation.height; ++y) {
            uint64_t here = 0;
            bool lacks = copy_row(states, to + z * operation.to.slice_pitch_bytes + y * operation.to.row_pitch_bytes,
                                  from + z * operation.from.slice_pitch_bytes + y * operation.from.row_pitch_bytes,
                                  operation.width_bytes, here);
            if (lacks && !found) first = here;
            found = found || lacks;
        }
    }
    if (!found || !checker->reporter.count(check::Finding::host_copy, first)) return;
    checker->reporter.print(
        log::format("Copy to the host of device memory that nothing has written\n    {} bytes from {:#x}\n"
                    "    address {:#x}, byte {} of a {}-byte allocation at {:#x}\n",
                    operation.width_bytes * operation.height * operation.depth, from, first, first - states.from->begin(),
                    states.from->size_bytes(), states.from->begin()));
}

void note_memset(const CUDA_MEMSET_NODE_PARAMS& params) {
    if (checker_for(check::check_init) == nullptr) return;
    for (size_t y = 0; y < params.height; ++y) note_write(params.dst + y * params.pitch, params.width * params.elementSize);
}

}  // namespace warpline::softgpu::driver
