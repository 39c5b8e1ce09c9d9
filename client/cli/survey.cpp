// What a program would see of a server, found out by being one.
#include "client/cli/survey.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <vector>

#include "client/cli/paths.h"
#include "client/pool/names.h"
#include "common/config/settings.h"
#include "cuda/abi/cuda_types.h"
#include "cuda/abi/visible_devices.h"

namespace warpline::cli {

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point began, double per_second) {
    return std::chrono::duration<double>(Clock::now() - began).count() * per_second;
}

template <typename F>
bool find(void* library, F& function, const char* name) {
    function = reinterpret_cast<F>(::dlsym(library, name));
    return function != nullptr;
}

/// The few calls of the driver that a survey needs.
struct Driver {
    CUresult (*init)(unsigned) = nullptr;
    CUresult (*version)(int*) = nullptr;
    CUresult (*count)(int*) = nullptr;
    CUresult (*name)(char*, int, CUdevice) = nullptr;
    CUresult (*uuid)(CUuuid*, CUdevice) = nullptr;
    CUresult (*attribute)(int*, CUdevice_attribute, CUdevice) = nullptr;
    CUresult (*retain)(CUcontext*, CUdevice) = nullptr;
    CUresult (*set_current)(CUcontext) = nullptr;
    CUresult (*memory)(size_t*, size_t*) = nullptr;
    CUresult (*synchronize)() = nullptr;
    CUresult (*alloc)(CUdeviceptr*, size_t) = nullptr;
    CUresult (*to_device)(CUdeviceptr, const void*, size_t) = nullptr;
    CUresult (*from_device)(void*, CUdeviceptr, size_t) = nullptr;

    bool load() {
        void* library = ::dlopen((client_library_folder() + "/libcuda.so.1").c_str(), RTLD_NOW);
        return library && find(library, init, "cuInit") && find(library, version, "cuDriverGetVersion") &&
               find(library, count, "cuDeviceGetCount") && find(library, name, "cuDeviceGetName") &&
               find(library, uuid, "cuDeviceGetUuid_v2") && find(library, attribute, "cuDeviceGetAttribute") &&
               find(library, retain, "cuDevicePrimaryCtxRetain") && find(library, set_current, "cuCtxSetCurrent") &&
               find(library, memory, "cuMemGetInfo_v2") && find(library, synchronize, "cuCtxSynchronize") &&
               find(library, alloc, "cuMemAlloc_v2") && find(library, to_device, "cuMemcpyHtoD_v2") &&
               find(library, from_device, "cuMemcpyDtoH_v2");
    }
};

nlohmann::json visit_device(const Driver& driver, int ordinal) {
    char name[256] = "";
    int major = 0, minor = 0, processors = 0;
    size_t free_bytes = 0, total_bytes = 0;
    CUcontext context = nullptr;
    CUuuid uuid{};
    driver.name(name, sizeof(name), ordinal);
    driver.uuid(&uuid, ordinal);
    driver.attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, ordinal);
    driver.attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, ordinal);
    driver.attribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, ordinal);
    if (driver.retain(&context, ordinal) == CUDA_SUCCESS && driver.set_current(context) == CUDA_SUCCESS)
        driver.memory(&free_bytes, &total_bytes);
    return {{"name", name},
            {"uuid", cuda::abi::device_name_of(uuid, name)},
            {"major", major},
            {"minor", minor},
            {"processors", processors},
            {"free", free_bytes},
            {"total", total_bytes}};
}

// An event descriptor, which an interrupt makes readable: also one that comes just before somebody waits.
int g_interrupt = -1;

void on_interrupt(int) {
    const uint64_t one = 1;
    (void)!::write(g_interrupt, &one, sizeof one);
}

void send_line(int fd, const nlohmann::json& said) {
    const std::string text = said.dump() + "\n";
    for (size_t sent = 0; sent < text.size();) {
        ssize_t n = ::write(fd, text.data() + sent, text.size() - sent);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) std::_Exit(1);  // nobody listens any more
        sent += static_cast<size_t>(n);
    }
}

/// Waits until then. False if there was an interrupt.
bool wait_until(Clock::time_point time) {
    for (;;) {
        const auto left = std::max(std::chrono::nanoseconds(0), std::chrono::nanoseconds(time - Clock::now())).count();
        const timespec timeout{static_cast<time_t>(left / 1'000'000'000), static_cast<long>(left % 1'000'000'000)};
        pollfd entry{g_interrupt, POLLIN, 0};
        const int ready = ::ppoll(&entry, 1, &timeout, nullptr);
        if (ready > 0) return false;
        if (ready == 0) return true;
    }
}

/// Bytes that do not repeat themselves.
std::vector<uint32_t> noise(uint64_t bytes) {
    std::vector<uint32_t> words((bytes + 3) / 4);
    uint32_t state = 1;
    for (uint32_t& word : words) word = state = state * 1664525u + 1013904223u;
    return words;
}

/// To the first device and back. What is copied first opens the connections, and is not counted.
nlohmann::json time_copies(const Driver& driver, uint64_t bytes) {
    constexpr uint64_t k_first_bytes = 4u << 20;
    CUcontext context = nullptr;
    CUdeviceptr memory = 0;
    std::vector<uint32_t> words;
    CUresult result = driver.retain(&context, 0);
    if (result == CUDA_SUCCESS) result = driver.set_current(context);
    if (result == CUDA_SUCCESS) result = driver.alloc(&memory, bytes);
    if (result == CUDA_SUCCESS) words = noise(bytes);
    if (result == CUDA_SUCCESS) result = driver.to_device(memory, words.data(), std::min(bytes, k_first_bytes));
    if (result == CUDA_SUCCESS) result = driver.synchronize();
    auto began = Clock::now();
    if (result == CUDA_SUCCESS) result = driver.to_device(memory, words.data(), bytes);
    if (result == CUDA_SUCCESS) result = driver.synchronize();
    const double to_device_s = since(began, 1);
    began = Clock::now();
    if (result == CUDA_SUCCESS) result = driver.from_device(words.data(), memory, bytes);
    const double from_device_s = since(began, 1);
    if (result != CUDA_SUCCESS) return {{"copy_failed", static_cast<int>(result)}};
    const auto rate = [bytes](double seconds) { return static_cast<double>(bytes) / seconds; };
    return {{"to_device", rate(to_device_s)}, {"from_device", rate(from_device_s)}};
}

/// In the child: visits, and says what it finds, a line for the visit and one for each probe.
void visit(int fd, const Probes& probes) {
    Driver driver;
    if (!driver.load()) return send_line(fd, {{"error", static_cast<int>(CUDA_ERROR_NOT_FOUND)}});
    auto began = Clock::now();
    if (CUresult r = driver.init(0); r != CUDA_SUCCESS) return send_line(fd, {{"error", static_cast<int>(r)}});
    nlohmann::json found = {{"error", 0}, {"connect_ms", since(began, 1e3)}, {"devices", nlohmann::json::array()}};
    int version = 0, count = 0;
    driver.version(&version);
    driver.count(&count);
    found["driver_version"] = version;
    for (int i = 0; i < count; ++i) found["devices"].push_back(visit_device(driver, i));
    if (probes.count > 0) (void)driver.synchronize();  // not counted: it wakes the worker's thread
    send_line(fd, found);
    for (int i = 0; i < probes.count; ++i) {
        began = Clock::now();
        if (CUresult r = driver.synchronize(); r != CUDA_SUCCESS) return send_line(fd, {{"failed", static_cast<int>(r)}});
        send_line(fd, {{"us", since(began, 1e6)}});
        const auto interval = std::chrono::duration<double>(probes.interval_s);
        if (i + 1 < probes.count && !wait_until(began + std::chrono::duration_cast<Clock::duration>(interval))) return;
    }
    if (probes.copy_bytes > 0) send_line(fd, time_copies(driver, probes.copy_bytes));
}

/// The child's whole life. Its statistics, with the link's quality, go to the file.
[[noreturn]] void run_child(const std::string& server, const Probes& probes, int fd, int statistics_fd) {
    struct sigaction interrupt = {};
    interrupt.sa_handler = on_interrupt;
    interrupt.sa_flags = static_cast<int>(SA_RESETHAND);  // the second one ends it
    g_interrupt = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (probes.count > 0) ::sigaction(SIGINT, &interrupt, nullptr);
    ::setenv("WARPLINE_SERVERS", server.c_str(), 1);
    ::setenv("WARPLINE_GRACE", "0", 1);  // a lost connection is what we are asked about
    ::setenv("WARPLINE_STATS", ("/proc/self/fd/" + std::to_string(statistics_fd)).c_str(), 1);
    // Nor is a synchronisation a question if the answer is known here.
    const char* disabled = std::getenv("WARPLINE_DISABLE");
    ::setenv("WARPLINE_DISABLE", (std::string(disabled ? disabled : "") + ",polling").c_str(), 1);
    if (probes.copy_bytes > 0) ::setenv("WARPLINE_BULK_LANES_AFTER", "0", 1);
    visit(fd, probes);
    ::close(fd);
    std::exit(0);
}

void hear_visit(Survey& survey, const nlohmann::json& found) {
    survey.cuda_error = found["error"];
    if (survey.cuda_error != 0) return;
    survey.reached = true;
    survey.driver_version = found["driver_version"];
    survey.connect_ms = found["connect_ms"];
    for (const auto& d : found["devices"])
        survey.devices.push_back({d["name"], d["uuid"], d["total"], d["free"], d["major"], d["minor"], d["processors"]});
}

void hear(Survey& survey, const nlohmann::json& said, const Probes& probes) {
    if (said.is_discarded()) return;
    if (said.contains("error")) {
        hear_visit(survey, said);
        if (survey.reached && probes.connected) probes.connected(survey);
        return;
    }
    if (said.contains("copy_failed")) {
        survey.copy_error = said["copy_failed"];
        return;
    }
    if (said.contains("to_device")) {
        survey.to_device_bytes_per_s = said["to_device"];
        survey.from_device_bytes_per_s = said["from_device"];
        return;
    }
    ++survey.probes_sent;
    if (said.contains("failed")) {
        if (probes.failed) probes.failed(survey.probes_sent, said["failed"]);
        return;
    }
    survey.round_trips_us.push_back(said["us"]);
    if (probes.answered) probes.answered(survey.probes_sent, survey.round_trips_us.back());
}

/// Takes each line as it comes, until the child has closed its end.
void hear_all(int fd, Survey& survey, const Probes& probes) {
    std::string text;
    char buffer[4096];
    for (;;) {
        ssize_t n = ::read(fd, buffer, sizeof(buffer));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;
        text.append(buffer, static_cast<size_t>(n));
        for (size_t end; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1))
            hear(survey, nlohmann::json::parse(text.substr(0, end), nullptr, false), probes);
    }
}

SurveyedLink link_in(const nlohmann::json& link) {
    SurveyedLink seen;
    seen.level = link["level"];
    seen.level_seconds = link["level_seconds"];
    seen.round_trips = link["round_trips"];
    seen.smoothed_us = link["smoothed_round_trip_us"];
    seen.variation_us = link["round_trip_variation_us"];
    seen.jitter_us = link["jitter_us"];
    seen.pings = link["pings"];
    seen.missed_pings = link["missed_pings"];
    seen.sent_bytes_per_s = link["sent_bytes_per_s"];
    seen.received_bytes_per_s = link["received_bytes_per_s"];
    return seen;
}

void read_links(int fd, Survey& survey) {
    std::string text(16384, '\0');
    ssize_t n = ::pread(fd, text.data(), text.size(), 0);
    auto statistics = nlohmann::json::parse(text.substr(0, n > 0 ? static_cast<size_t>(n) : 0), nullptr, false);
    if (!statistics.is_object() || !statistics.contains("link")) return;
    survey.link = link_in(statistics["link"]);
    for (const auto& [lane, link] : statistics["bulk_links"].items()) survey.bulk_links.emplace(std::stoi(lane), link_in(link));
}

}  // namespace

Survey survey(const std::string& server, const Probes& probes) {
    Survey result;
    result.server = server;
    int pipe_ends[2];
    if (::pipe2(pipe_ends, O_CLOEXEC) != 0) return result;
    const int statistics = ::memfd_create("warpline-statistics", MFD_CLOEXEC);
    std::fflush(nullptr);
    pid_t child = ::fork();
    if (child == 0) run_child(server, probes, pipe_ends[1], statistics);
    ::close(pipe_ends[1]);
    auto* before = probes.count > 0 ? std::signal(SIGINT, SIG_IGN) : SIG_ERR;
    hear_all(pipe_ends[0], result, probes);
    ::close(pipe_ends[0]);
    int status = 0;
    if (child > 0) ::waitpid(child, &status, 0);
    if (before != SIG_ERR) std::signal(SIGINT, before);
    // Killed while a probe was out: that one had no answer.
    if (result.reached && WIFSIGNALED(status) && result.probes_sent < probes.count) ++result.probes_sent;
    if (statistics >= 0) {
        read_links(statistics, result);
        ::close(statistics);
    }
    return result;
}

std::vector<ServerToVisit> servers_to_visit(const std::vector<std::string>& given) {
    std::string problem;
    const auto settings = config::load_client(problem);
    if (!problem.empty()) std::fprintf(stderr, "warpline: %s\n", problem.c_str());
    const auto written = given.empty() ? settings.text_list("servers") : given;
    if (written.empty())
        std::fprintf(stderr, "warpline: no server is named: set WARPLINE_SERVERS=HOST:PORT, or give one with --server\n");
    auto dns = net::Dns::at(settings.text("dns_server"));
    if (!dns.ok()) {
        std::fprintf(stderr, "warpline: WARPLINE_DNS: %s\n", dns.error().what);
        return {};
    }
    std::vector<client::PoolEntry> entries;
    std::vector<ServerToVisit> nothing;
    for (const std::string& text : written) {
        std::string why;
        auto entry = client::parse_pool_entry(text, why);
        if (entry.ok()) entries.push_back(std::move(*entry));
        if (!entry.ok()) nothing.push_back({text, why});
    }
    client::Names names(client::ask_dns(*dns));
    const auto patience = std::chrono::milliseconds(settings.seconds("connect_timeout")) / 2;
    const auto expanded = names.expand(entries, client::Names::Clock::now() + patience);
    std::vector<ServerToVisit> servers;
    for (const client::PoolServer& server : expanded.servers) servers.push_back({server.address, ""});
    for (const auto& [entry, why] : expanded.failed) nothing.push_back({entry, entry + ": " + why});
    servers.insert(servers.end(), nothing.begin(), nothing.end());
    return servers;
}

}  // namespace warpline::cli
