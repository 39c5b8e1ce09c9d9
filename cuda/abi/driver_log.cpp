// The driver's log of errors, behind cuLogs*, and the lines of calls.
#include "cuda/abi/driver_log.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "cuda/abi/error_names.h"

namespace warpline::cuda::abi {

namespace {

constexpr size_t k_entries = 128;         // the oldest make room
constexpr size_t k_buffer_bytes = 25600;  // the largest dump (cuLogsDumpToMemory)
constexpr char k_truncated[] = "[...older messages are missing...]\n";

/// A message: kept as numbers, because hardly any is ever read.
struct Entry {
    const char* call = nullptr;
    CUresult result = CUDA_SUCCESS;
    timespec when{};
    pid_t thread = 0;
};

struct Listener {
    CUlogsCallback function;
    void* user;
};

struct Log {
    Mutex mutex;
    std::array<Entry, k_entries> entries WL_GUARDED_BY(mutex);
    CUlogIterator next WL_GUARDED_BY(mutex) = 0;  ///< number of the message to come
    std::vector<std::shared_ptr<const Listener>> listeners WL_GUARDED_BY(mutex);
    std::atomic<size_t> listening{0};
};

Log& log() {
    static auto* made = new Log;  // leaked on purpose: calls come after static destructors
    return *made;
}

/// "[22:21:32.099][25642][CUDA][E][cuMemAlloc_v2] Returning 1 (CUDA_ERROR_INVALID_VALUE)\n"
std::string line_of(const Entry& entry) {
    char text[256];
    tm local{};
    ::localtime_r(&entry.when.tv_sec, &local);
    const int length =
        std::snprintf(text, sizeof text, "[%02d:%02d:%02d.%03ld][%d][CUDA][E][%s] Returning %d (%s)\n", local.tm_hour,
                      local.tm_min, local.tm_sec, entry.when.tv_nsec / 1000000, static_cast<int>(entry.thread), entry.call,
                      static_cast<int>(entry.result), error_name_for_log(entry.result));
    return std::string(text, std::min<size_t>(static_cast<size_t>(length), sizeof text - 1));
}

/// The lines from an iterator on, oldest first; all that there are if it is null. It moves to the end.
std::vector<std::string> lines_from(CUlogIterator* iterator, bool& missing) {
    Log& all = log();
    MutexLock lock(all.mutex);
    const CUlogIterator oldest = all.next > k_entries ? all.next - static_cast<CUlogIterator>(k_entries) : 0;
    CUlogIterator from = iterator ? std::min(*iterator, all.next) : 0;
    missing = from < oldest;
    from = std::max(from, oldest);
    std::vector<std::string> lines;
    for (; from != all.next; ++from) lines.push_back(line_of(all.entries[from % k_entries]));
    if (iterator) *iterator = all.next;
    return lines;
}

}  // namespace

void note_error(const char* call, CUresult result) noexcept {
    try {
        Log& all = log();
        Entry entry{call, result, {}, ::gettid()};
        ::clock_gettime(CLOCK_REALTIME, &entry.when);
        std::vector<std::shared_ptr<const Listener>> listeners;
        {
            MutexLock lock(all.mutex);
            all.entries[all.next++ % k_entries] = entry;
            if (all.listening.load(std::memory_order_relaxed) != 0) listeners = all.listeners;
        }
        if (listeners.empty()) return;
        std::string line = line_of(entry);
        for (const auto& listener : listeners) listener->function(listener->user, CU_LOG_LEVEL_ERROR, line.data(), line.size());
    } catch (...) {  // out of memory for a line: the result says enough
    }
}

void tell_call(const char* call, CUresult result) noexcept {
    try {
        WL_LOG(trace, "calls", "{}: {} ({})", call, static_cast<int>(result), error_name_for_log(result));
    } catch (...) {  // out of memory for a line
    }
}

CUresult logs_register_callback(CUlogsCallback function, void* user, CUlogsCallbackHandle* out) {
    if (!function) return CUDA_ERROR_INVALID_VALUE;
    auto listener = std::make_shared<const Listener>(Listener{function, user});
    if (out) *out = reinterpret_cast<CUlogsCallbackHandle>(const_cast<Listener*>(listener.get()));
    Log& all = log();
    MutexLock lock(all.mutex);
    all.listeners.push_back(std::move(listener));
    all.listening.store(all.listeners.size());
    return CUDA_SUCCESS;
}

CUresult logs_unregister_callback(CUlogsCallbackHandle callback) {
    Log& all = log();
    MutexLock lock(all.mutex);
    const size_t gone =
        std::erase_if(all.listeners, [&](const auto& one) { return one.get() == reinterpret_cast<const Listener*>(callback); });
    all.listening.store(all.listeners.size());
    return gone != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult logs_current(CUlogIterator* out, unsigned flags) {
    if (!out || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    Log& all = log();
    MutexLock lock(all.mutex);
    *out = all.next;
    return CUDA_SUCCESS;
}

CUresult logs_dump_to_file(CUlogIterator* iterator, const char* path, unsigned flags) {
    if (!path || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    std::FILE* file = std::fopen(path, "we");
    if (!file) return CUDA_ERROR_INVALID_VALUE;
    bool missing = false;
    const std::vector<std::string> lines = lines_from(iterator, missing);
    if (missing) std::fputs(k_truncated, file);
    for (const std::string& line : lines) std::fputs(line.c_str(), file);
    return std::fclose(file) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult logs_dump_to_memory(CUlogIterator* iterator, char* buffer, size_t* size, unsigned flags) {
    if (!buffer || !size || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    const size_t room = std::min(*size, k_buffer_bytes);
    bool missing = false;
    const std::vector<std::string> lines = lines_from(iterator, missing);
    *size = 0;
    if (lines.empty()) {
        if (room != 0) buffer[0] = '\0';
        return CUDA_SUCCESS;
    }
    // The last ones that have room, with the zero behind them, and a remark before them if there were more.
    size_t bytes = 0, first = lines.size();
    auto fits = [&](size_t more) { return bytes + more + 1 <= room; };
    const size_t remark = sizeof k_truncated - 1;
    while (first > 0 && fits(lines[first - 1].size() + (first > 1 || missing ? remark : 0))) bytes += lines[--first].size();
    if (first == lines.size()) return CUDA_ERROR_INVALID_VALUE;
    std::string text = first > 0 || missing ? k_truncated : "";
    for (; first < lines.size(); ++first) text += lines[first];
    std::memcpy(buffer, text.c_str(), text.size() + 1);
    *size = text.size();
    return CUDA_SUCCESS;
}

}  // namespace warpline::cuda::abi
