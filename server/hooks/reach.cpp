// Finding a context from which memory can be reached, and keeping the order on the way there.
#include "server/hooks/reach.h"

namespace warpline::server {

namespace {

/// Makes another context current as long as it lives.
class InContext {
public:
    InContext(ServerCall& call, uint64_t context) : m_call(call), m_result(call.session().contexts().make_current(context)) {}
    ~InContext() { m_call.session().contexts().make_current(m_call.scope()); }
    InContext(const InContext&) = delete;
    InContext& operator=(const InContext&) = delete;
    CUresult result() const { return m_result; }

private:
    ServerCall& m_call;
    const CUresult m_result;
};

/// An event where the stream, whose context is current, is now: for streams of other contexts to wait for.
CUresult mark(ServerCall& call, CUstream before, CUevent& event) {
    WL_CUDA(WL_DRIVER(call, cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
    return WL_DRIVER(call, cuEventRecord)(event, before);
}

/// Queues the work in a stream of the owner's, which stands where `stream` is now and lets it go on afterwards. `beside_of`
/// names the owner's stream in its primary context, which is current then.
CUresult queue_at_owner(ServerCall& call, CUdevice owner, CUstream stream, FunctionRef<CUresult(uint64_t, CUstream&)> beside_of,
                        FunctionRef<CUresult(CUstream)> work) {
    const auto wait = WL_DRIVER(call, cuStreamWaitEvent);
    const auto destroy = WL_DRIVER(call, cuEventDestroy_v2);
    CUevent begin = nullptr;
    CUevent end = nullptr;
    CUresult result = mark(call, stream, begin);
    if (result == CUDA_SUCCESS) {
        const uint64_t token = Contexts::primary_token(owner);
        const InContext other(call, token);
        CUstream beside = nullptr;
        result = other.result();
        if (result == CUDA_SUCCESS) result = beside_of(token, beside);
        if (result == CUDA_SUCCESS) result = wait(beside, begin, 0);
        if (result == CUDA_SUCCESS) result = work(beside);
        if (result == CUDA_SUCCESS) result = mark(call, beside, end);
    }
    if (result == CUDA_SUCCESS) result = wait(stream, end, 0);
    // The driver keeps an event until nobody waits for it.
    if (begin != nullptr) destroy(begin);
    if (end != nullptr) destroy(end);
    return result;
}

}  // namespace

bool is_out_of_reach(ServerCall& call, uint64_t address, CUdevice& owner) {
    Session& session = call.session();
    if (session.devices().size() < 2) return false;
    owner = session.memory().owner_of(address);
    CUdevice current = 0;
    if (owner < 0 || !session.contexts().device_of(call.context(), current)) return false;
    return owner != current && !session.memory().is_open(owner, current);
}

CUresult context_for(ServerCall& call, uint64_t address, CUcontext& context) {
    CUdevice owner = 0;
    const uint64_t token = is_out_of_reach(call, address, owner) ? Contexts::primary_token(owner) : call.scope();
    return call.session().contexts().find(token, context);
}

CUresult copy_in_reach(ServerCall& call, uint64_t address, CUstream stream, FunctionRef<CUresult(CUstream)> copy) {
    CUdevice owner = 0;
    if (!is_out_of_reach(call, address, owner)) return copy(stream);
    const auto own = [&](uint64_t context, CUstream& beside) {
        return call.session().streams().of_thread(Streams::k_own_thread, context, beside);
    };
    return queue_at_owner(call, owner, stream, own, copy);
}

CUresult wait_in_reach(ServerCall& call, uint64_t address, FunctionRef<CUresult()> copy) {
    CUdevice owner = 0;
    if (!is_out_of_reach(call, address, owner)) return copy();
    WL_CUDA(WL_DRIVER(call, cuStreamSynchronize)(nullptr));
    const InContext other(call, Contexts::primary_token(owner));
    return other.result() == CUDA_SUCCESS ? copy() : other.result();
}

CUresult queue_in_reach(ServerCall& call, uint64_t address, FunctionRef<CUresult()> work) {
    CUdevice owner = 0;
    if (!is_out_of_reach(call, address, owner)) return work();
    const auto legacy = [](uint64_t, CUstream&) { return CUDA_SUCCESS; };
    return queue_at_owner(call, owner, nullptr, legacy, [&](CUstream) { return work(); });
}

}  // namespace warpline::server
