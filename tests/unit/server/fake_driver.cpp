// A CUDA driver for the server's tests: devices made of host memory, streams made of threads, kernels made of C++. It exists
// because the tests need a driver that waits, fails, prints and crashes exactly when told to.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "cuda/abi/cuda_types.h"
#include "tests/unit/server/intruder.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

struct Stream {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> work;
    bool busy = false;
    std::thread thread{[this] { run(); }};

    void run() {
        std::unique_lock lock(mutex);
        for (;;) {
            changed.wait(lock, [this] { return !work.empty(); });
            auto next = std::move(work.front());
            work.pop_front();
            busy = true;
            lock.unlock();
            next();
            lock.lock();
            busy = false;
            changed.notify_all();
        }
    }
    void push(std::function<void()> function) {
        std::lock_guard lock(mutex);
        work.push_back(std::move(function));
        changed.notify_all();
    }
    void wait() {
        std::unique_lock lock(mutex);
        changed.wait(lock, [this] { return work.empty() && !busy; });
    }
    bool idle() {
        std::lock_guard lock(mutex);
        return work.empty() && !busy;
    }
};

struct Event {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = true;
};

/// Device memory: of which device, and how much.
struct Piece {
    CUdevice device = 0;
    size_t bytes = 0;
};

struct State {
    std::mutex mutex;
    std::condition_variable changed;  // global
    std::map<CUdeviceptr, Piece> mapped;
    std::map<CUmemGenericAllocationHandle, Piece> memory;
    uint64_t next_handle = 0x1000;
    std::atomic<int> sticky = 0;
    uint64_t global = 0;
    std::set<Stream*> streams;
};

// Never destroyed: stream threads outlive main.
State& state() {
    static auto* instance = new State;
    return *instance;
}
Stream& legacy_stream() {
    static auto* instance = new Stream;
    return *instance;
}
Stream& stream_of(CUstream stream) {
    return reinterpret_cast<uintptr_t>(stream) <= 2 ? legacy_stream() : *reinterpret_cast<Stream*>(stream);
}

thread_local CUcontext t_context = nullptr;
constexpr uintptr_t k_first_context = 0xc0;  // of device 0; the next device's is the next number

/// A line for the server's log, if the test wants to know.
void tell(const char* what, unsigned value) {
    if (std::getenv("FAKE_DRIVER_TELLS") != nullptr) std::fprintf(stderr, "fake driver: %s %u\n", what, value);
}

struct Primary {
    std::mutex mutex;
    int retained = 0;
    unsigned flags = 0;
    int lock_fd = -1;

    /// In exclusive mode one process at a time has the device: who has locked the file that the variable names.
    bool take_device() {
        const char* path = std::getenv("FAKE_DRIVER_EXCLUSIVE");
        if (path == nullptr) return true;
        lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (flock(lock_fd, LOCK_EX | LOCK_NB) == 0) return true;
        close(lock_fd);
        return false;
    }
    void give_device() {
        if (lock_fd >= 0) close(lock_fd);
        lock_fd = -1;
    }
};
Primary& primary(CUdevice device) {
    constexpr size_t k_most_devices = 16;
    static auto* instances = new Primary[k_most_devices];
    return instances[static_cast<size_t>(device) % k_most_devices];
}

CUdevice current_device() { return static_cast<CUdevice>(reinterpret_cast<uintptr_t>(t_context) - k_first_context); }

/// The device whose memory this is; -1 if it is none.
CUdevice owner_of(CUdeviceptr address, size_t bytes) {
    State& s = state();
    std::lock_guard lock(s.mutex);
    if (address - reinterpret_cast<CUdeviceptr>(&s.global) < sizeof s.global)
        return bytes <= sizeof s.global ? current_device() : -1;
    auto it = s.mapped.upper_bound(address);
    if (it == s.mapped.begin()) return -1;
    --it;
    const size_t offset = address - it->first;
    return offset < it->second.bytes && bytes <= it->second.bytes - offset ? it->second.device : -1;
}
/// For a plain copy: memory that is mapped is accessible to its own device only.
bool contains(CUdeviceptr address, size_t bytes) { return owner_of(address, bytes) == current_device(); }

CUresult ready() {
    if (t_context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    State& s = state();
    std::lock_guard lock(s.mutex);
    return static_cast<CUresult>(s.sticky.load());
}

/// Waits inside of the driver until somebody has copied a number other than zero to the variable.
void wait_for_variable() {
    State& s = state();
    std::unique_lock lock(s.mutex);
    s.changed.wait(lock, [&s] { return s.global != 0; });
}

size_t free_bytes() {
    State& s = state();
    std::lock_guard lock(s.mutex);
    size_t free = size_t{6} << 30;
    for (const auto& [address, piece] : s.mapped) free -= piece.bytes;
    return free;
}

/// What drivers do before memory comes or goes.
void wait_for_device() {
    std::set<Stream*> streams;
    {
        std::lock_guard lock(state().mutex);
        streams = state().streams;
    }
    legacy_stream().wait();
    for (Stream* stream : streams) stream->wait();
}

bool has_no_mapping() { return std::getenv("FAKE_DRIVER_NO_MAPPING") != nullptr; }

// "full": its launch waits as if the driver's queue was full. "lazy": asking for it as a function waits, as loading its image
// does.
constexpr const char* k_kernels[] = {"add", "print", "gate", "crash", "fault", "break_out", "full", "lazy", "open_files"};
constexpr int k_print = 1, k_full = 6, k_lazy = 7, k_open_files = 8;

CUresult launch(int kernel, unsigned threads, CUstream stream, void** params) {
    if (kernel == 3) std::abort();
    if (kernel == k_full) wait_for_variable();
    if (kernel == k_full || kernel == k_lazy) kernel = k_print;
    if (kernel == 4) {
        state().sticky = CUDA_ERROR_ILLEGAL_ADDRESS;
        return CUDA_SUCCESS;
    }
    CUdeviceptr address[3] = {};
    if (kernel == 5 || kernel == k_open_files) {
        stream_of(stream).push(kernel == 5 ? warpline::server::break_out : warpline::server::open_files);
        return CUDA_SUCCESS;
    }
    if (kernel == 0) {
        for (int i = 0; i < 3; ++i) std::memcpy(&address[i], params[i], sizeof address[i]);
        int count = 0;
        std::memcpy(&count, params[3], sizeof count);
        stream_of(stream).push([=] {
            const auto* a = reinterpret_cast<const float*>(address[0]);
            const auto* b = reinterpret_cast<const float*>(address[1]);
            for (int i = 0; i < count; ++i) reinterpret_cast<float*>(address[2])[i] = a[i] + b[i];
        });
    } else if (kernel == k_print) {
        stream_of(stream).push([=] { std::printf("printed by %u threads\n", threads); });
    } else {
        std::memcpy(&address[0], params[0], sizeof address[0]);
        stream_of(stream).push([=] { std::atomic_ref(*reinterpret_cast<uint32_t*>(address[0])).wait(0); });
    }
    return CUDA_SUCCESS;
}

}  // namespace

EXPORT CUresult cuInit(unsigned) {
    // More than a pipe holds.
    for (int i = 0; std::getenv("FAKE_DRIVER_CHATTY") != nullptr && i < 4000; ++i)
        std::fprintf(stderr, "fake driver: line %d of what it has to say\n", i);
    // As NVIDIA's where device nodes are missing: a setuid program makes them, if it is allowed to.
    if (const char* node = std::getenv("FAKE_DRIVER_NEEDS_NODE"); node != nullptr && access(node, F_OK) != 0) {
        if (geteuid() != 0 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 0) return CUDA_ERROR_OPERATING_SYSTEM;
        std::ofstream(node) << "a node";
    }
    // As NVIDIA's where no persistence daemon keeps the GPU awake.
    if (const char* slow = std::getenv("FAKE_DRIVER_INIT_MS")) usleep(static_cast<useconds_t>(std::atoi(slow)) * 1000);
    return std::getenv("FAKE_DRIVER_BROKEN") != nullptr ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}
EXPORT CUresult cuDriverGetVersion(int* version) { return *version = 13000, CUDA_SUCCESS; }
EXPORT CUresult cuDeviceGetCount(int* count) {
    const char* devices = std::getenv("FAKE_DRIVER_DEVICES");
    return *count = devices != nullptr ? std::atoi(devices) : 1, CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGet(CUdevice* device, int ordinal) { return *device = ordinal, CUDA_SUCCESS; }
EXPORT CUresult cuDeviceGetName(char* name, int length, CUdevice) {
    std::snprintf(name, static_cast<size_t>(length), "Fake GPU");
    return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice) { return *bytes = size_t{8} << 30, CUDA_SUCCESS; }
EXPORT CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice) { return std::memset(uuid, 0xab, sizeof *uuid), CUDA_SUCCESS; }
EXPORT CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute id, CUdevice) {
    switch (id) {
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return *value = 8, CUDA_SUCCESS;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return *value = 9, CUDA_SUCCESS;
        case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return *value = 4, CUDA_SUCCESS;
        case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: return *value = has_no_mapping() ? 0 : 1, CUDA_SUCCESS;
        case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
            *value =
                std::getenv("FAKE_DRIVER_EXCLUSIVE") != nullptr ? CU_COMPUTEMODE_EXCLUSIVE_PROCESS : CU_COMPUTEMODE_DEFAULT;
            return CUDA_SUCCESS;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}
EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
    return *flags = primary(device).flags, *active = primary(device).retained > 0, CUDA_SUCCESS;
}
EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
    return primary(device).flags = flags, CUDA_SUCCESS;
}
EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
    Primary& p = primary(device);
    std::lock_guard lock(p.mutex);
    if (p.retained == 0 && !p.take_device()) return CUDA_ERROR_DEVICE_UNAVAILABLE;
    if (p.retained++ == 0) tell("context made, flags", p.flags);
    return *context = reinterpret_cast<CUcontext>(k_first_context + static_cast<uintptr_t>(device)), CUDA_SUCCESS;
}
EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    Primary& p = primary(device);
    std::lock_guard lock(p.mutex);
    if (p.retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (--p.retained == 0) p.give_device();
    return CUDA_SUCCESS;
}
EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
    Primary& p = primary(device);
    std::lock_guard lock(p.mutex);
    p.retained = 0;
    p.give_device();
    return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxSetCurrent(CUcontext context) { return t_context = context, CUDA_SUCCESS; }
EXPORT CUresult cuCtxGetDevice(CUdevice* device) { return *device = current_device(), CUDA_SUCCESS; }
EXPORT CUresult cuCtxGetCurrent(CUcontext* context) { return *context = t_context, CUDA_SUCCESS; }
EXPORT CUresult cuCtxSynchronize() {
    wait_for_device();
    return ready();
}
EXPORT CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
    return *free = free_bytes(), *total = size_t{8} << 30, CUDA_SUCCESS;
}

EXPORT CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t, CUdeviceptr hint, unsigned long long) {
    void* got = mmap(reinterpret_cast<void*>(hint), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    *address = reinterpret_cast<CUdeviceptr>(got);
    return CUDA_SUCCESS;
}
EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
    munmap(reinterpret_cast<void*>(address), bytes);
    return CUDA_SUCCESS;
}
EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle* memory, size_t bytes, const CUmemAllocationProp* properties,
                            unsigned long long) {
    if (bytes > free_bytes()) return CUDA_ERROR_OUT_OF_MEMORY;
    State& s = state();
    std::lock_guard lock(s.mutex);
    *memory = s.next_handle++;
    s.memory[*memory] = {properties->location.id, bytes};
    return CUDA_SUCCESS;
}
EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle memory) {
    State& s = state();
    std::lock_guard lock(s.mutex);
    return s.memory.erase(memory) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t, CUmemGenericAllocationHandle memory, unsigned long long) {
    State& s = state();
    std::lock_guard lock(s.mutex);
    mprotect(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE);
    s.mapped[address] = {s.memory[memory].device, bytes};
    return CUDA_SUCCESS;
}
EXPORT CUresult cuMemSetAccess(CUdeviceptr, size_t, const CUmemAccessDesc*, size_t) { return CUDA_SUCCESS; }
EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
    State& s = state();
    std::lock_guard lock(s.mutex);
    s.mapped.erase(address);
    mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    return CUDA_SUCCESS;
}
// Without mapping: memory at the driver's addresses, where freeing and allocating wait.
EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
    if (bytes > free_bytes()) return CUDA_ERROR_OUT_OF_MEMORY;
    void* got = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    State& s = state();
    std::lock_guard lock(s.mutex);
    s.mapped[*address = reinterpret_cast<CUdeviceptr>(got)] = {current_device(), bytes};
    return CUDA_SUCCESS;
}
EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
    wait_for_device();
    State& s = state();
    std::lock_guard lock(s.mutex);
    const auto found = s.mapped.find(address);
    if (found == s.mapped.end()) return CUDA_ERROR_INVALID_VALUE;
    munmap(reinterpret_cast<void*>(address), found->second.bytes);
    s.mapped.erase(found);
    return CUDA_SUCCESS;
}
// As drivers do, once everything that runs is over.
EXPORT CUresult cuMemHostAlloc(void** data, size_t bytes, unsigned) {
    wait_for_device();
    *data = std::malloc(bytes);
    return CUDA_SUCCESS;
}
EXPORT CUresult cuMemFreeHost(void* data) {
    wait_for_device();
    std::free(data);
    return CUDA_SUCCESS;
}
EXPORT CUresult cuMemHostRegister_v2(void*, size_t, unsigned) {
    wait_for_device();
    return CUDA_SUCCESS;
}
EXPORT CUresult cuMemHostUnregister(void*) {
    wait_for_device();
    return CUDA_SUCCESS;
}

namespace {

/// A copy to the device, when its turn has come. Somebody may be waiting for what it writes: the driver for its variable, a
/// kernel at a gate.
void write_to_device(CUdeviceptr target, const void* source, size_t bytes) {
    uint32_t word = 0;
    State& s = state();
    if (target == reinterpret_cast<CUdeviceptr>(&s.global)) {
        std::lock_guard lock(s.mutex);
        std::memcpy(&s.global, source, bytes);
        s.changed.notify_all();
    } else if (bytes == sizeof word) {
        std::memcpy(&word, source, sizeof word);
        const std::atomic_ref gate(*reinterpret_cast<uint32_t*>(target));
        gate.store(word);
        gate.notify_all();
    } else {
        std::memcpy(reinterpret_cast<void*>(target), source, bytes);
    }
}

}  // namespace

EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr target, const void* source, size_t bytes) {
    legacy_stream().wait();
    if (const CUresult result = ready(); result != CUDA_SUCCESS) return result;
    if (!contains(target, bytes)) return CUDA_ERROR_INVALID_VALUE;
    write_to_device(target, source, bytes);
    return CUDA_SUCCESS;
}
EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void* source, size_t bytes, CUstream stream) {
    if (const CUresult result = ready(); result != CUDA_SUCCESS) return result;
    if (!contains(target, bytes)) return CUDA_ERROR_INVALID_VALUE;
    if (bytes <= 64 * 1024) {
        std::string copy(static_cast<const char*>(source), bytes);
        stream_of(stream).push([target, copy] { write_to_device(target, copy.data(), copy.size()); });
    } else {
        stream_of(stream).push([=] { write_to_device(target, source, bytes); });
    }
    return CUDA_SUCCESS;
}
EXPORT CUresult cuMemcpyDtoH_v2(void* target, CUdeviceptr source, size_t bytes) {
    legacy_stream().wait();
    if (const CUresult result = ready(); result != CUDA_SUCCESS) return result;
    if (!contains(source, bytes)) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(target, reinterpret_cast<const void*>(source), bytes);
    return CUDA_SUCCESS;
}
EXPORT CUresult cuMemcpyDtoHAsync_v2(void* target, CUdeviceptr source, size_t bytes, CUstream stream) {
    if (const CUresult result = ready(); result != CUDA_SUCCESS) return result;
    if (!contains(source, bytes)) return CUDA_ERROR_INVALID_VALUE;
    stream_of(stream).push([=] { std::memcpy(target, reinterpret_cast<const void*>(source), bytes); });
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr target, CUdeviceptr source, size_t bytes) {
    if (!contains(target, bytes) || !contains(source, bytes)) return CUDA_ERROR_INVALID_VALUE;
    legacy_stream().push([=] { std::memcpy(reinterpret_cast<void*>(target), reinterpret_cast<const void*>(source), bytes); });
    return CUDA_SUCCESS;
}
EXPORT CUresult cuMemcpyPeer(CUdeviceptr target, CUcontext to, CUdeviceptr source, CUcontext from, size_t bytes) {
    const auto device = [](CUcontext context) {
        return static_cast<CUdevice>(reinterpret_cast<uintptr_t>(context) - k_first_context);
    };
    if (owner_of(target, bytes) != device(to) || owner_of(source, bytes) != device(from)) return CUDA_ERROR_INVALID_VALUE;
    legacy_stream().push([=] { std::memcpy(reinterpret_cast<void*>(target), reinterpret_cast<const void*>(source), bytes); });
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamCreate(CUstream* stream, unsigned) {
    auto* made = new Stream;
    *stream = reinterpret_cast<CUstream>(made);
    std::lock_guard lock(state().mutex);
    state().streams.insert(made);
    return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamDestroy_v2(CUstream) { return CUDA_SUCCESS; }
EXPORT CUresult cuStreamSynchronize(CUstream stream) {
    stream_of(stream).wait();
    return ready();
}
EXPORT CUresult cuStreamQuery(CUstream stream) { return stream_of(stream).idle() ? ready() : CUDA_ERROR_NOT_READY; }
EXPORT CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
    // "will not be called in the event of an error in the CUDA context" (cuda.h)
    stream_of(stream).push([=] {
        if (state().sticky == 0) function(data);
    });
    return CUDA_SUCCESS;
}
EXPORT CUresult cuEventCreate(CUevent* event, unsigned flags) {
    tell("event made, flags", flags);
    *event = reinterpret_cast<CUevent>(new Event);
    return CUDA_SUCCESS;
}
EXPORT CUresult cuEventDestroy_v2(CUevent) { return CUDA_SUCCESS; }
EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
    auto* recorded = reinterpret_cast<Event*>(event);
    {
        std::lock_guard lock(recorded->mutex);
        recorded->done = false;
    }
    stream_of(stream).push([recorded] {
        std::lock_guard lock(recorded->mutex);
        recorded->done = true;
        recorded->changed.notify_all();
    });
    return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
    stream_of(stream).push([event] {
        auto* awaited = reinterpret_cast<Event*>(event);
        std::unique_lock lock(awaited->mutex);
        awaited->changed.wait(lock, [awaited] { return awaited->done; });
    });
    return CUDA_SUCCESS;
}
EXPORT CUresult cuEventQuery(CUevent event) {
    auto* asked = reinterpret_cast<Event*>(event);
    std::lock_guard lock(asked->mutex);
    return asked->done ? static_cast<CUresult>(state().sticky.load()) : CUDA_ERROR_NOT_READY;
}
EXPORT CUresult cuEventSynchronize(CUevent event) {
    auto* awaited = reinterpret_cast<Event*>(event);
    std::unique_lock lock(awaited->mutex);
    awaited->changed.wait(lock, [awaited] { return awaited->done; });
    return static_cast<CUresult>(state().sticky.load());
}
// The name of drivers from before CUDA 12.8: of cuEventElapsedTime_v2 there is none here.
#undef cuEventElapsedTime
EXPORT CUresult cuEventElapsedTime(float* milliseconds, CUevent, CUevent) {
    *milliseconds = 1.5f;
    return CUDA_SUCCESS;
}
// Looks at what it is given, as a driver does: a handle that is none would crash it.
EXPORT CUresult cuStreamSetAttribute(CUstream, CUstreamAttrID id, const CUstreamAttrValue* value) {
    if (id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT) return CUDA_SUCCESS;
    return reinterpret_cast<Event*>(value->programmaticEvent.event)->done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

EXPORT CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* options, void** values, unsigned count,
                                  CUlibraryOption*, void**, unsigned) {
    if (std::strstr(static_cast<const char*>(code), "broken") != nullptr) {
        for (unsigned i = 0; i < count; ++i) {
            if (options[i] == CU_JIT_ERROR_LOG_BUFFER) std::strcpy(static_cast<char*>(values[i]), "line 1: broken");
        }
        return CUDA_ERROR_INVALID_PTX;
    }
    if (std::strstr(static_cast<const char*>(code), "waits") != nullptr) wait_for_variable();
    *library = reinterpret_cast<CUlibrary>(0x11b);
    return CUDA_SUCCESS;
}
EXPORT CUresult cuLinkCreate_v2(unsigned, CUjit_option*, void**, CUlinkState* link) {
    *link = reinterpret_cast<CUlinkState>(0x114);
    return CUDA_SUCCESS;
}
// Accepts what is to be compiled for at most 32 registers, and for at least two blocks.
EXPORT CUresult cuLinkAddData_v2(CUlinkState, CUjitInputType, void*, size_t, const char*, unsigned count, CUjit_option* options,
                                 void** values) {
    if (count != 2 || options[0] != CU_JIT_MAX_REGISTERS || options[1] != CU_JIT_MIN_CTA_PER_SM) return CUDA_ERROR_INVALID_PTX;
    return values[0] == reinterpret_cast<void*>(32) && values[1] == reinterpret_cast<void*>(2) ? CUDA_SUCCESS
                                                                                               : CUDA_ERROR_INVALID_PTX;
}
EXPORT CUresult cuLibraryUnload(CUlibrary) { return CUDA_SUCCESS; }
EXPORT CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary, const char* name) {
    for (uintptr_t i = 0; i < std::size(k_kernels); ++i) {
        if (std::strcmp(name, k_kernels[i]) == 0) return *kernel = reinterpret_cast<CUkernel>(0x100 + i), CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
}
EXPORT CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
    if (reinterpret_cast<uintptr_t>(kernel) == 0x100 + k_lazy) wait_for_variable();
    *function = reinterpret_cast<CUfunction>(kernel);
    return ready();
}
EXPORT CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t* offset, size_t* size) {
    constexpr size_t k_params[std::size(k_kernels)] = {4, 0, 1};
    if (index >= k_params[reinterpret_cast<uintptr_t>(kernel) - 0x100]) return CUDA_ERROR_INVALID_VALUE;
    *offset = index * 8;
    *size = 8;
    return CUDA_SUCCESS;
}
EXPORT CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t* offset, size_t* size) {
    return cuKernelGetParamInfo(reinterpret_cast<CUkernel>(function), index, offset, size);
}
EXPORT CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel, CUdevice) {
    *value = static_cast<int>(attribute) * 10;
    return CUDA_SUCCESS;
}
EXPORT CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary, const char*) {
    *address = reinterpret_cast<CUdeviceptr>(&state().global);
    *bytes = sizeof state().global;
    return CUDA_SUCCESS;
}
EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned, unsigned, unsigned, unsigned threads, unsigned, unsigned,
                               unsigned, CUstream stream, void** params, void**) {
    if (const CUresult result = ready(); result != CUDA_SUCCESS) return result;
    if (threads == 0) return CUDA_ERROR_INVALID_VALUE;
    return launch(static_cast<int>(reinterpret_cast<uintptr_t>(function) - 0x100), threads, stream, params);
}
