// Stands in for NVIDIA's management library where there is no GPU: it tells what a file says, at every question anew, and hangs
// or crashes when it is told to. FAKE_NVML names the file; a line of it: UUID PERCENT FREE_BYTES TOTAL_BYTES, where a PERCENT
// below zero is one that is not supported (as of MIG devices), or the word `hang`, `crash`, or `no-init`, or a word and what it
// is for: `slow MILLISECONDS`, for each reading of a utilisation, or `lost BUS_ID`, a GPU that has fallen off the bus, or `fans
// COUNT`, or processes on each device: `strangers COUNT`, and behind them `process PID BYTES`.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <poll.h>
#include <unistd.h>

namespace {

constexpr int k_success = 0, k_uninitialized = 1, k_not_supported = 3, k_not_found = 6, k_insufficient_size = 7,
              k_gpu_is_lost = 15, k_unknown = 999;

bool g_initialised = false;

struct Reading {
    std::string uuid;
    int percent = 0;
    unsigned long long free_bytes = 0, total_bytes = 0;
};

std::vector<Reading> readings() {
    std::vector<Reading> all;
    const char* path = std::getenv("FAKE_NVML");
    std::ifstream file(path != nullptr ? path : "");
    for (std::string line; std::getline(file, line);) {
        if (line == "hang") pause();
        if (line == "crash") std::raise(SIGKILL);
        std::istringstream words(line);
        Reading reading;
        if (words >> reading.uuid >> reading.percent >> reading.free_bytes >> reading.total_bytes) all.push_back(reading);
    }
    return all;
}

/// What the file's line for a word says; nothing: there is none.
std::string said_for(const std::string& word) {
    const char* path = std::getenv("FAKE_NVML");
    std::ifstream file(path != nullptr ? path : "");
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with(word + " ")) return line.substr(word.size() + 1);
    }
    return {};
}

/// Handles are places in the file, counted from 1.
std::optional<Reading> reading_of(void* device) {
    const auto all = readings();
    const auto place = reinterpret_cast<size_t>(device);
    return place >= 1 && place <= all.size() ? std::optional(all[place - 1]) : std::nullopt;
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)

struct Utilization {
    unsigned gpu, memory;
};
struct Memory {
    unsigned long long total, free, used;
};

struct Process {
    unsigned pid;
    unsigned long long used_bytes;
    unsigned gpu_instance, compute_instance;
};

int nvmlInit_v2() {
    const char* path = std::getenv("FAKE_NVML");
    std::string first;
    if (path == nullptr || !std::getline(std::ifstream(path), first) || first == "no-init") return k_unknown;
    g_initialised = true;
    return k_success;
}

int nvmlShutdown() {
    g_initialised = false;
    return k_success;
}

const char* nvmlErrorString(int) { return "as the file says"; }

int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
    if (!g_initialised) return k_uninitialized;
    const auto all = readings();
    for (size_t i = 0; i < all.size(); ++i) {
        if (all[i].uuid != uuid) continue;
        *device = reinterpret_cast<void*>(i + 1);
        return k_success;
    }
    // As NVIDIA's, which says so whichever GPU it was looking for.
    return said_for("lost").empty() ? k_not_found : k_gpu_is_lost;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void**) {
    const std::string lost = said_for("lost");
    return !lost.empty() && lost == bus ? k_gpu_is_lost : k_not_found;
}

int nvmlDeviceGetUtilizationRates(void* device, Utilization* utilization) {
    const auto reading = reading_of(device);
    if (!reading) return k_not_found;
    poll(nullptr, 0, std::atoi(said_for("slow").c_str()));
    if (reading->percent < 0) return k_not_supported;
    *utilization = {static_cast<unsigned>(reading->percent), 0};
    return k_success;
}

int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
    const auto reading = reading_of(device);
    if (!reading) return k_not_found;
    *memory = {reading->total_bytes, reading->free_bytes, reading->total_bytes - reading->free_bytes};
    return k_success;
}

/// Fails where nothing is said of it.
int nvmlDeviceGetNumFans(void*, unsigned* count) {
    const std::string said = said_for("fans");
    *count = static_cast<unsigned>(std::atoi(said.c_str()));
    return said.empty() ? k_unknown : k_success;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, Process* processes) {
    constexpr unsigned k_beyond_pids = 1u << 23;
    std::vector<Process> all(static_cast<size_t>(std::atoi(said_for("strangers").c_str())));
    for (size_t i = 0; i < all.size(); ++i) all[i] = {k_beyond_pids + static_cast<unsigned>(i), 1, ~0u, ~0u};
    std::istringstream words(said_for("process"));
    Process process{0, 0, ~0u, ~0u};
    if (words >> process.pid >> process.used_bytes) all.push_back(process);
    const unsigned room = *count;
    *count = static_cast<unsigned>(all.size());
    if (all.size() > room) return k_insufficient_size;
    std::copy(all.begin(), all.end(), processes);
    return k_success;
}

struct Attributes {
    unsigned multiprocessors, copy_engines, decoders, encoders, jpegs, ofas, gpu_slices, compute_slices;
    unsigned long long memory_mib;
};

/// As a `3g.40gb` has them.
int nvmlDeviceGetAttributes_v2(void* device, Attributes* attributes) {
    const auto reading = reading_of(device);
    if (!reading || !reading->uuid.starts_with("MIG-")) return k_not_supported;
    *attributes = {60, 3, 3, 0, 3, 0, 4, 3, 40'448};
    return k_success;
}

int nvmlSystemGetDriverVersion(char* text, unsigned length) {
    if (length < 7) return k_unknown;
    std::strcpy(text, "570.11");
    return k_success;
}

#pragma GCC visibility pop
}
