// Streams that wait for values in memory, or write them.
#include <algorithm>

#include "client/call/completion.h"
#include "client/gen/stream_memory_calls.gen.h"
#include "client/graph/batch.h"
#include "client/graph/capture.h"

namespace warpline::client {

namespace {

/// The stream was given a wait.
void note_wait(Call& call, uint64_t stream) {
    if (is_capturing(call, stream)) return call.state.gates.note_in_graph();
    note_gate(call, stream);
}

/// One operation, which `issue` sends.
template <typename Issue, typename Value>
CUresult operate(Call& call, CUstream handle, CUstreamBatchMemOpType operation, CUdeviceptr address, Value value,
                 unsigned int flags, Issue issue) {
    uint64_t stream = 0;
    if (CUresult refused = enter_stream(call, handle, stream); refused != CUDA_SUCCESS) return refused;
    call.stream = stream;
    CUstreamBatchMemOpParams item{};
    item.operation = operation;
    item.waitValue.address = address;
    item.waitValue.flags = flags;
    if (const CUresult refused = check_item(call, item); refused != CUDA_SUCCESS) return refused;
    const CUresult result = issue(call, stream, address, value, flags);
    if (result == CUDA_SUCCESS && is_wait(item)) note_wait(call, stream);
    return result;
}

}  // namespace

CUresult hook_client_cuStreamWaitValue32_v2(Call& call, CUstream handle, CUdeviceptr addr, cuuint32_t value,
                                            unsigned int flags) {
    return operate(call, handle, CU_STREAM_MEM_OP_WAIT_VALUE_32, addr, value, flags, gen::issue_cuStreamWaitValue32_v2);
}

CUresult hook_client_cuStreamWriteValue32_v2(Call& call, CUstream handle, CUdeviceptr addr, cuuint32_t value,
                                             unsigned int flags) {
    return operate(call, handle, CU_STREAM_MEM_OP_WRITE_VALUE_32, addr, value, flags, gen::issue_cuStreamWriteValue32_v2);
}

CUresult hook_client_cuStreamWaitValue64_v2(Call& call, CUstream handle, CUdeviceptr addr, cuuint64_t value,
                                            unsigned int flags) {
    return operate(call, handle, CU_STREAM_MEM_OP_WAIT_VALUE_64, addr, value, flags, gen::issue_cuStreamWaitValue64_v2);
}

CUresult hook_client_cuStreamWriteValue64_v2(Call& call, CUstream handle, CUdeviceptr addr, cuuint64_t value,
                                             unsigned int flags) {
    return operate(call, handle, CU_STREAM_MEM_OP_WRITE_VALUE_64, addr, value, flags, gen::issue_cuStreamWriteValue64_v2);
}

CUresult hook_client_cuStreamBatchMemOp_v2(Call& call, CUstream handle, unsigned int count,
                                           CUstreamBatchMemOpParams* paramArray, unsigned int flags) {
    uint64_t stream = 0;
    if (CUresult refused = enter_stream(call, handle, stream); refused != CUDA_SUCCESS) return refused;
    call.stream = stream;
    if (count == 0 && flags == 0) return CUDA_SUCCESS;
    const CUDA_BATCH_MEM_OP_NODE_PARAMS batch{nullptr, count, paramArray, flags};
    if (CUresult refused = check_batch(call, batch); refused != CUDA_SUCCESS) return refused;
    const CUresult result = gen::issue_cuStreamBatchMemOp_v2(call, stream, count, array_bytes(paramArray, count), flags);
    if (result == CUDA_SUCCESS && std::any_of(paramArray, paramArray + count, is_wait)) note_wait(call, stream);
    return result;
}

}  // namespace warpline::client
