// User objects of graphs. Their destructors are functions of the program, and who holds a reference is known here: graphs,
// executable graphs, and launches until the server tells their end. Nothing of it travels.
#include "client/call/common.h"
#include "client/gen/user_object_calls.gen.h"

namespace warpline::client {

namespace {

CUresult find_object(const Call& call, CUuserObject handle, unsigned count, UserObjectPtr& object) {
    if (count == 0 || count > INT32_MAX) return CUDA_ERROR_INVALID_VALUE;
    const UserObjectEntry* entry = call.state.user_objects.find(to_token(handle));
    if (!entry) return CUDA_ERROR_INVALID_VALUE;
    object = entry->object;
    return object ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult hook_client_cuUserObjectCreate(Call& call, CUuserObject* object_out, void* ptr, CUhostFn destroy,
                                        unsigned int initialRefcount, unsigned int flags) {
    if (!destroy || initialRefcount == 0 || initialRefcount > INT32_MAX) return CUDA_ERROR_INVALID_VALUE;
    if (flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) return CUDA_ERROR_INVALID_VALUE;
    auto made = call.state.user_objects.make();
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    const auto end = [&call_state = call.state, &calls = call.session.host_calls(), token = made.token, destroy, ptr] {
        call_state.user_objects.remove(token);
        calls.post([destroy, ptr](CUresult) { destroy(ptr); });
    };
    made.object->object = std::make_shared<UserObject>(initialRefcount, end);
    *object_out = to_handle<CUuserObject>(made.token);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuUserObjectRetain(Call& call, CUuserObject object, unsigned int count) {
    UserObjectPtr found;
    if (CUresult refused = find_object(call, object, count, found); refused != CUDA_SUCCESS) return refused;
    found->retain(count);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuUserObjectRelease(Call& call, CUuserObject object, unsigned int count) {
    UserObjectPtr found;
    if (CUresult refused = find_object(call, object, count, found); refused != CUDA_SUCCESS) return refused;
    return found->release(count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult hook_client_cuGraphRetainUserObject(Call& call, CUgraph graph, CUuserObject object, unsigned int count,
                                             unsigned int flags) {
    if ((flags & ~static_cast<unsigned>(CU_GRAPH_USER_OBJECT_MOVE)) != 0) return CUDA_ERROR_INVALID_VALUE;
    const Graph* holder = call.state.graphs.find(to_token(graph));
    if (!holder) return CUDA_ERROR_INVALID_VALUE;
    UserObjectPtr found;
    if (CUresult refused = find_object(call, object, count, found); refused != CUDA_SUCCESS) return refused;
    if ((flags & CU_GRAPH_USER_OBJECT_MOVE) == 0) found->retain(count);
    holder->references->add(found, count);
    return CUDA_SUCCESS;
}

CUresult hook_client_cuGraphReleaseUserObject(Call& call, CUgraph graph, CUuserObject object, unsigned int count) {
    const Graph* holder = call.state.graphs.find(to_token(graph));
    if (!holder) return CUDA_ERROR_INVALID_VALUE;
    UserObjectPtr found;
    if (CUresult refused = find_object(call, object, count, found); refused != CUDA_SUCCESS) return refused;
    // DB-43: those that the graph does not have are given up all the same.
    return holder->references->remove(found, count) || found->release(count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace warpline::client
