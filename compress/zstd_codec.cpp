// Zstandard, with contexts that are kept.
#include "compress/zstd_codec.h"

// For ZSTD_compressSequences(), of the library that is linked into ours.
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include <algorithm>
#include <array>

#include "common/base/mutex.h"
#include "common/base/scope_guard.h"
#include "compress/codec.h"

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
    constexpr int k_default_level = 3;
    if (level < 0 || level > k_highest_level) return Error{Code::bad_argument, "no such zstd level"};
    ZSTD_CCtx* context = g_packers.take();
    if (context == nullptr) return Error{Code::alloc_failed, "no memory for zstd"};
    ScopeGuard give_back([&] { g_packers.give_back(context); });
    size_t packed =
        ZSTD_compressCCtx(context, out.data(), out.size(), raw.data(), raw.size(), level == 0 ? k_default_level : level);
    if (ZSTD_isError(packed)) return Error{Code::internal, "zstd did not pack into its own bound"};
    return packed;
}

Result<size_t> compress_zstd_bytes(BytesView raw, MutableBytesView out) {
    if (raw.size() > k_zstd_bytes_limit) return Error{Code::bad_argument, "chunk too large to pack"};
    ZSTD_CCtx* context = g_packers.take();
    if (context == nullptr) return Error{Code::alloc_failed, "no memory for zstd"};
    ScopeGuard give_back([&] {
        ZSTD_CCtx_reset(context, ZSTD_reset_session_and_parameters);
        g_packers.give_back(context);
    });
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, 1);
    ZSTD_CCtx_setParameter(context, ZSTD_c_blockDelimiters, ZSTD_sf_explicitBlockDelimiters);
    // Blocks of literals only: a sequence without a match ends each.
    std::array<ZSTD_Sequence, k_zstd_bytes_limit / ZSTD_BLOCKSIZE_MAX> blocks;
    size_t count = 0;
    for (size_t done = 0; done < raw.size(); done += ZSTD_BLOCKSIZE_MAX) {
        const size_t bytes = std::min<size_t>(ZSTD_BLOCKSIZE_MAX, raw.size() - done);
        blocks[count++] = {0, static_cast<unsigned>(bytes), 0, 0};
    }
    const size_t packed = ZSTD_compressSequences(context, out.data(), out.size(), blocks.data(), count, raw.data(), raw.size());
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
