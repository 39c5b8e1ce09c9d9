// Objects of the program that graphs hold references to.
#include "softgpu/driver/graph/graph.h"
#include "softgpu/driver/process/process.h"

namespace warpline::softgpu::driver {

namespace {

CUresult find_object(CUuserObject handle, uint32_t count, std::shared_ptr<UserObject>& object) {
    if (count == 0 || count > INT32_MAX) return CUDA_ERROR_INVALID_VALUE;
    object = process().user_objects.find(handle);
    return object != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult cuUserObjectCreate(CUuserObject* object_out, void* ptr, CUhostFn destroy, unsigned int initialRefcount,
                            unsigned int flags) {
    if (object_out == nullptr || destroy == nullptr || initialRefcount == 0 || initialRefcount > INT32_MAX) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) return CUDA_ERROR_INVALID_VALUE;
    auto object = std::make_shared<UserObject>(ptr, destroy, initialRefcount);
    uint64_t handle = process().user_objects.add(object);
    object->set_handle(handle);
    *object_out = as_handle<CUuserObject>(handle);
    return CUDA_SUCCESS;
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned int count) {
    std::shared_ptr<UserObject> found;
    CU_TRY(find_object(object, count, found));
    found->retain(count);
    return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned int count) {
    std::shared_ptr<UserObject> found;
    CU_TRY(find_object(object, count, found));
    return found->release(count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags) {
    if ((flags & ~static_cast<unsigned int>(CU_GRAPH_USER_OBJECT_MOVE)) != 0) return CUDA_ERROR_INVALID_VALUE;
    GraphPtr found;
    CU_TRY(find_graph(graph, found));
    std::shared_ptr<UserObject> user;
    CU_TRY(find_object(object, count, user));
    if ((flags & CU_GRAPH_USER_OBJECT_MOVE) == 0) user->retain(count);
    found->user_objects.add(user, count);
    return CUDA_SUCCESS;
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count) {
    GraphPtr found;
    CU_TRY(find_graph(graph, found));
    std::shared_ptr<UserObject> user;
    CU_TRY(find_object(object, count, user));
    // DB-43: those that the graph does not have are given up all the same.
    return found->user_objects.remove(user, count) || user->release(count) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace warpline::softgpu::driver
