// Occupancy: asked for once, and known here until the program sets up the function or the context differently.
#include <algorithm>
#include <array>

#include "client/code/functions.h"
#include "client/code/images.h"
#include "client/code/launch_params.h"
#include "client/gen/function_calls.gen.h"

namespace warpline::client {

namespace {

/// How many blocks or clusters of a function fit depends on the context, too, and how that is set up.
template <typename... Parts>
Bytes occupancy_question(const Call& call, cuda::CallId id, const Parts&... parts) {
    return question_of(id, call.context, call.current()->settings.load(), parts...);
}

/// What is known of a function as it is set up now, while a question about it is answered.
class AsSetUp {
public:
    AsSetUp(const Call& call, Function& function)
        : m_call(call), m_function(function), m_place(function.place_of(call.device())) {
        MutexLock lock(function.mutex);
        m_moment = function.setups[m_place].now(call.session.failures());
        m_time = function.occupancy.now();
    }

    bool find(const Bytes& question, uint64_t& answer) const { return m_function.occupancy.find(whole(question), answer); }
    /// What the driver has answered. @param question  may be of the same answer as others
    void keep(const Bytes& question, uint64_t answer) {
        {
            MutexLock lock(m_function.mutex);
            if (!m_function.setups[m_place].holds(m_moment, m_call.session.failures())) return;
        }
        Answers<uint64_t>& known = m_function.occupancy;
        if (known.is_full()) {  // it is set up in many ways
            known.forget();
            m_time = known.now();
        }
        known.keep(whole(question), answer, m_time);
    }
    /// The answer: what is known, or what ask(answer) tells, which is kept if it returns CUDA_SUCCESS.
    template <std::invocable<uint64_t&> Ask>
    CUresult get(const Bytes& question, uint64_t& answer, Ask&& ask) {
        if (find(question, answer)) return CUDA_SUCCESS;
        const CUresult result = ask(answer);
        if (result == CUDA_SUCCESS) keep(question, answer);
        return result;
    }

private:
    Bytes whole(const Bytes& question) const {
        Bytes bytes = m_moment.key;
        bytes.insert(bytes.end(), question.begin(), question.end());
        return bytes;
    }

    const Call& m_call;
    Function& m_function;
    const size_t m_place;
    FunctionSetup::Moment m_moment;
    uint64_t m_time = 0;
};

/// Of the attributes of a launch what can make a difference for how much of it fits. The rest, what a launch waits for or
/// tells among it, is another one each time.
Bytes attributes_that_matter(const CUlaunchConfig& config) {
    Bytes bytes;
    for (unsigned i = 0; i < config.numAttrs; ++i) {
        const CUlaunchAttribute& attribute = config.attrs[i];
        switch (attribute.id) {
            case CU_LAUNCH_ATTRIBUTE_IGNORE:
            case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
            case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
            case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE: continue;
            case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION: {
                // Of the union only these are the program's; the rest is what was there before.
                const auto& size = attribute.value.clusterDim;
                const Bytes part = question_of({}, static_cast<unsigned>(attribute.id), size.x, size.y, size.z);
                bytes.insert(bytes.end(), part.begin(), part.end());
                continue;
            }
            default: break;
        }
        const BytesView view = as_bytes(&attribute, sizeof attribute);
        bytes.insert(bytes.end(), view.begin(), view.end());
    }
    return bytes;
}

/// What a question about clusters names, looked up.
struct ClusterQuestion {
    Function* function = nullptr;
    // Which multiprocessors there are follows from the stream: those of its green context, or all of its context's.
    uint64_t context = 0, green = 0;

    CUresult read(Call& call, CUfunction func, const CUlaunchConfig& config) {
        function = func ? call.state.functions.find(to_token(func)) : &call.state.no_function;
        if (!function) return CUDA_ERROR_INVALID_HANDLE;
        if (CUresult refused = check_attributes(call, config.attrs, config.numAttrs); refused != CUDA_SUCCESS) return refused;
        const Stream* stream = call.state.streams.find(to_token(config.hStream));
        if (CUresult refused = check_stream(call, config.hStream); refused != CUDA_SUCCESS) return refused;
        context = stream ? stream->context : call.context;
        green = stream ? stream->green : current_green(call);
        return CUDA_SUCCESS;
    }

    Bytes question(const Call& call, const CUlaunchConfig& config) const {
        return occupancy_question(call, call.id, context, green, config.gridDimX, config.gridDimY, config.gridDimZ,
                                  config.blockDimX, config.blockDimY, config.blockDimZ, config.sharedMemBytes,
                                  BytesView(attributes_that_matter(config)));
    }
};

/// The same launch with clusters of other sizes, if its clusters lie in one row. Where the grid is one cluster it stays one.
class ClusterSizes {
public:
    static constexpr unsigned k_most = 32;

    explicit ClusterSizes(const CUlaunchConfig& config) : m_config(config) {
        if (config.numAttrs == 0 || config.numAttrs > m_attributes.size()) return;
        std::copy_n(config.attrs, config.numAttrs, m_attributes.begin());
        m_config.attrs = m_attributes.data();
        for (unsigned i = 0; i < config.numAttrs; ++i) {
            if (m_attributes[i].id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) continue;
            const auto& size = m_attributes[i].value.clusterDim;
            if (size.y != 1 || size.z != 1) return;
            m_size = &m_attributes[i].value.clusterDim.x;
            m_grid_follows = config.gridDimX == size.x && config.gridDimY == 1 && config.gridDimZ == 1;
        }
    }
    ClusterSizes(const ClusterSizes&) = delete;
    ClusterSizes& operator=(const ClusterSizes&) = delete;

    bool possible() const { return m_size != nullptr; }
    const CUlaunchConfig& of(unsigned size) {
        *m_size = size;
        if (m_grid_follows) m_config.gridDimX = size;
        return m_config;
    }

private:
    CUlaunchConfig m_config;
    std::array<CUlaunchAttribute, 8> m_attributes{};
    unsigned* m_size = nullptr;
    bool m_grid_follows = false;
};

/// Answers that follow from the question alone; others say how the session or the device are doing.
bool is_about_arguments(CUresult result) {
    return result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_INVALID_CLUSTER_SIZE ||
           result == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
}

uint64_t pack(CUresult result, int count) {
    return uint64_t{static_cast<uint32_t>(result)} << 32 | static_cast<uint32_t>(count);
}
CUresult unpack(uint64_t packed, int& count) {
    const auto result = static_cast<CUresult>(packed >> 32);
    if (result == CUDA_SUCCESS) count = static_cast<int>(static_cast<uint32_t>(packed));
    return result;
}

}  // namespace

CUresult ask_blocks(Call& call, int* numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize, unsigned flags) {
    Function* function = call.state.functions.find(to_token(func));
    if (!function) return CUDA_ERROR_INVALID_HANDLE;
    if (flags & ~static_cast<unsigned>(CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)) return CUDA_ERROR_INVALID_VALUE;
    uint64_t blocks = 0;
    const Bytes question = occupancy_question(call, cuda::CallId::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
                                              blockSize, dynamicSMemSize, flags);
    const CUresult result = AsSetUp(call, *function).get(question, blocks, [&](uint64_t& told) {
        if (CUresult refused = ensure_announced(call, to_token(func), *function); refused != CUDA_SUCCESS) return refused;
        gen::CuOccupancyMaxActiveBlocksPerMultiprocessorWithFlagsValues answer;
        const CUresult asked = gen::request_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
            call, to_token(func), blockSize, dynamicSMemSize, flags, answer);
        told = static_cast<uint64_t>(answer.numBlocks);
        return asked;
    });
    if (result == CUDA_SUCCESS) *numBlocks = static_cast<int>(blocks);
    return result;
}

CUresult ask_shared_bytes(Call& call, size_t* dynamicSmemSize, CUfunction func, int numBlocks, int blockSize) {
    Function* function = call.state.functions.find(to_token(func));
    if (!function) return CUDA_ERROR_INVALID_HANDLE;
    uint64_t bytes = 0;
    const Bytes question = occupancy_question(call, call.id, numBlocks, blockSize);
    const CUresult result = AsSetUp(call, *function).get(question, bytes, [&](uint64_t& told) {
        if (CUresult refused = ensure_announced(call, to_token(func), *function); refused != CUDA_SUCCESS) return refused;
        gen::CuOccupancyAvailableDynamicSMemPerBlockValues answer;
        const CUresult asked =
            gen::request_cuOccupancyAvailableDynamicSMemPerBlock(call, to_token(func), numBlocks, blockSize, answer);
        told = answer.dynamicSmemSize;
        return asked;
    });
    if (result == CUDA_SUCCESS) *dynamicSmemSize = bytes;
    return result;
}

CUresult ask_largest_cluster(Call& call, int* clusterSize, CUfunction func, const CUlaunchConfig& config) {
    ClusterQuestion asked;
    if (CUresult refused = asked.read(call, func, config); refused != CUDA_SUCCESS) return refused;
    uint64_t size = 0;
    const CUresult result = AsSetUp(call, *asked.function).get(asked.question(call, config), size, [&](uint64_t& told) {
        if (CUresult refused = ensure_announced(call, to_token(func), *asked.function); refused != CUDA_SUCCESS) return refused;
        gen::CuOccupancyMaxPotentialClusterSizeValues values;
        const CUresult answer = gen::request_cuOccupancyMaxPotentialClusterSize(
            call, to_token(func), config.gridDimX, config.gridDimY, config.gridDimZ, config.blockDimX, config.blockDimY,
            config.blockDimZ, config.sharedMemBytes, to_token(config.hStream), array_bytes(config.attrs, config.numAttrs),
            values);
        told = static_cast<uint64_t>(values.clusterSize);
        return answer;
    });
    if (result == CUDA_SUCCESS) *clusterSize = static_cast<int>(size);
    return result;
}

CUresult ask_clusters(Call& call, int* numClusters, CUfunction func, const CUlaunchConfig& config) {
    ClusterQuestion asked;
    if (CUresult refused = asked.read(call, func, config); refused != CUDA_SUCCESS) return refused;
    AsSetUp known(call, *asked.function);
    const Bytes question = asked.question(call, config);
    uint64_t told = 0;
    if (known.find(question, told)) return unpack(told, *numClusters);
    const CUresult announced = func ? ensure_announced(call, to_token(func), *asked.function) : CUDA_SUCCESS;
    if (announced != CUDA_SUCCESS) return announced;
    // Who asks for a second size, as cuBLAS does, will ask for all: they come with the answer.
    ClusterSizes sizes(config);
    uint64_t nothing = 0;
    const Bytes shape = sizes.possible() ? asked.question(call, sizes.of(0)) : Bytes();
    const bool all = sizes.possible() && known.find(shape, nothing);
    gen::CuOccupancyMaxActiveClustersValues values;
    const CUresult result = gen::request_cuOccupancyMaxActiveClusters(
        call, to_token(func), config.gridDimX, config.gridDimY, config.gridDimZ, config.blockDimX, config.blockDimY,
        config.blockDimZ, config.sharedMemBytes, to_token(config.hStream), array_bytes(config.attrs, config.numAttrs),
        all ? ClusterSizes::k_most : 0, values);
    if (!is_about_arguments(result)) return result;
    known.keep(question, pack(result, values.numClusters));
    if (sizes.possible()) known.keep(shape, 1);
    for (size_t i = 0; all && i < std::min({values.counts.size(), values.results.size(), size_t{ClusterSizes::k_most}}); ++i) {
        const auto of_size = static_cast<CUresult>(values.results[i]);
        if (!is_about_arguments(of_size)) continue;
        known.keep(asked.question(call, sizes.of(static_cast<unsigned>(i) + 1)),
                   pack(of_size, static_cast<int>(values.counts[i])));
    }
    if (result == CUDA_SUCCESS) *numClusters = values.numClusters;
    return result;
}

}  // namespace warpline::client
