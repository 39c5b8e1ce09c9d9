#include "compress/zstd_codec.h"

#include <zstd.h>

#include <array>

#include "common/base/mutex.h"
#include "common/base/scope_guard.h"

namespace warpline::compress {

namespace {

// Contexts are large (a megabyte for packing) and slow to make, and thread-local ones would be destroyed before the last calls
// of a process. So a few idle ones are kept, for ever; more than that are made and given back as needed.
template <typename Context, Context* (*Make)(), size_t (*Free)(Context*)>
class ContextPool {
public:
    constexpr ContextPool() = default;

    Context* take() {
        {
            MutexLock lock(m_mutex);
            if (m_count > 0) return m_idle[--m_count];
        }
        return Make();
    }
    void give_back(Context* context) {
        {
            MutexLock lock(m_mutex);
            if (m_count < m_idle.size()) {
                m_idle[m_count++] = context;
                return;
            }
        }
        Free(context);
    }

private:
    static constexpr size_t k_idle_contexts = 8;
    Mutex m_mutex;  ///< protects the idle contexts
    std::array<Context*, k_idle_contexts> m_idle WL_GUARDED_BY(m_mutex){};
    size_t m_count WL_GUARDED_BY(m_mutex) = 0;
};

constinit ContextPool<ZSTD_CCtx, ZSTD_createCCtx, ZSTD_freeCCtx> g_packers;
constinit ContextPool<ZSTD_DCtx, ZSTD_createDCtx, ZSTD_freeDCtx> g_unpackers;

}  // namespace

size_t zstd_bound(size_t raw_bytes) { return ZSTD_compressBound(raw_bytes); }

Result<size_t> compress_zstd(int level, BytesView raw, MutableBytesView out) {
    constexpr int k_default_level = 3, k_highest_level = 19;
    if (level < 0 || level > k_highest_level) return Error{Code::bad_argument, "no such zstd level"};
    ZSTD_CCtx* context = g_packers.take();
    if (context == nullptr) return Error{Code::alloc_failed, "no memory for zstd"};
    ScopeGuard give_back([&] { g_packers.give_back(context); });
    size_t packed =
        ZSTD_compressCCtx(context, out.data(), out.size(), raw.data(), raw.size(), level == 0 ? k_default_level : level);
    if (ZSTD_isError(packed)) return Error{Code::internal, "zstd did not pack into its own bound"};
    return packed;
}

Result<void> decompress_zstd(BytesView packed, MutableBytesView out) {
    ZSTD_DCtx* context = g_unpackers.take();
    if (context == nullptr) return Error{Code::alloc_failed, "no memory for zstd"};
    ScopeGuard give_back([&] { g_unpackers.give_back(context); });
    size_t raw = ZSTD_decompressDCtx(context, out.data(), out.size(), packed.data(), packed.size());
    if (ZSTD_isError(raw) || raw != out.size()) return Error{Code::malformed, "zstd data is damaged"};
    return {};
}

}  // namespace warpline::compress
