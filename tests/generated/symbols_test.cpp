// cuGetProcAddress against the pinned list. Each stand-in function answers with the number of its symbol in that list, so a
// test sees which function an address belongs to.
#include "cuda/abi/symbols/symbols.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace warpline::cuda::abi {
namespace {

struct Pinned {
    std::string symbol, name;
    int version = 0;
    bool per_thread = false;
};

const std::vector<Pinned>& pinned() {
    static const std::vector<Pinned> lines = [] {
        std::vector<Pinned> read;
        for (const char* name :
             {WARPLINE_API "/symbols.txt", WARPLINE_API "/newer_symbols.txt", WARPLINE_API "/display_symbols.txt"}) {
            std::ifstream file(name);
            for (std::string line; std::getline(file, line);) {
                if (line.empty() || line[0] == '#') continue;
                std::istringstream words(line);
                Pinned entry;
                std::string twin;
                words >> entry.symbol >> entry.name >> entry.version >> twin;
                entry.per_thread = twin == "per_thread";
                read.push_back(entry);
            }
        }
        return read;
    }();
    return lines;
}

std::string symbol_at(void* address) {
    if (address == nullptr) return "";
    int line = reinterpret_cast<int (*)()>(address)();
    return pinned().at(static_cast<size_t>(line - 1)).symbol;
}

struct Answer {
    std::string symbol;
    CUresult result;
    CUdriverProcAddressQueryResult status;
    friend bool operator==(const Answer&, const Answer&) = default;
};

Answer ask(const char* name, int version, cuuint64_t flags = 0, int driver = k_newest_version) {
    void* address = nullptr;
    auto status = static_cast<CUdriverProcAddressQueryResult>(99);
    CUresult result = get_proc_address(driver_symbols(), driver, name, &address, version, flags, &status);
    return {symbol_at(address), result, status};
}

Answer found(const char* symbol) { return {symbol, CUDA_SUCCESS, CU_GET_PROC_ADDRESS_SUCCESS}; }
const Answer k_unknown{"", CUDA_SUCCESS, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND};
const Answer k_too_old{"", CUDA_SUCCESS, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT};
const Answer k_beyond{"", CUDA_ERROR_INVALID_VALUE, static_cast<CUdriverProcAddressQueryResult>(99)};
constexpr cuuint64_t k_per_thread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

TEST(Symbols, B1_all_are_in_the_table) {
    EXPECT_EQ(pinned().size(), 637u + 51u + 35u) << "of the toolkit's stub, of newer ones, for displays";
    EXPECT_EQ(driver_symbols().size(), pinned().size());
    int newest = 0;
    for (const Symbol& symbol : driver_symbols()) newest = std::max(newest, symbol.version);
    EXPECT_EQ(newest, k_newest_version);
}

TEST(Symbols, A2_those_for_displays_are_found_and_refused) {
    EXPECT_EQ(ask("cuGraphicsGLRegisterBuffer", 13000, 0, 13000), found("cuGraphicsGLRegisterBuffer"));
    EXPECT_EQ(ask("cuGLMapBufferObject", 13000, k_per_thread, 13000), found("cuGLMapBufferObject_v2_ptds"));
    EXPECT_EQ(ask("cuVDPAUCtxCreate", 13000, 0, 13000), found("cuVDPAUCtxCreate_v2"));
}

TEST(Symbols, A1_what_is_newer_than_the_driver_is_not_there) {
    EXPECT_EQ(ask("cuLibraryLoadData", 11080, 0, 11080), k_unknown);
    EXPECT_EQ(ask("cuLibraryLoadData", 12000, 0, 12000), found("cuLibraryLoadData"));
    EXPECT_EQ(ask("cuLogsCurrent", 12040, 0, 12040), k_unknown);
    EXPECT_EQ(ask("cuLogsCurrent", 12090, 0, 12040), k_beyond) << "a version above the driver's own";
    EXPECT_EQ(ask("cuGetProcAddress", 12000, 0, 11080), found("cuGetProcAddress_v2")) << "libcudart 12 has found it already";
    EXPECT_EQ(ask("cuEventElapsedTime", 12040, 0, 12040), found("cuEventElapsedTime"));
    EXPECT_EQ(ask("cuGraphExecUpdate", 11080, 0, 11080), found("cuGraphExecUpdate"));
    EXPECT_EQ(ask("cuMemPrefetchAsync", 12020, 0, 12020), found("cuMemPrefetchAsync_v2"));
    EXPECT_EQ(ask("cuMemPrefetchAsync", 12010, 0, 12020), found("cuMemPrefetchAsync"));
}

TEST(Symbols, A2_what_newer_toolkits_have_is_there_on_newer_drivers) {
    EXPECT_EQ(ask("cuGraphAddNode", 13000), found("cuGraphAddNode_v2"));
    EXPECT_EQ(ask("cuGraphAddNode", 13040), found("cuGraphAddNode_v3"));
    EXPECT_EQ(ask("cuKernelGetParamCount", 13020), found("cuKernelGetParamCount"));
    EXPECT_EQ(ask("cuKernelGetParamCount", 13010, 0, 13010), k_unknown);
    EXPECT_EQ(ask("cuDeviceGetCliqueCount", 13050), found("cuDeviceGetCliqueCount")) << "refused, as others that are refused";
}

TEST(Symbols, A2_what_is_not_served_at_all_is_not_found) {
    // Of a toolkit that nobody has described yet: known by name, and no older form in its place.
    int here = 0;
    const Symbol symbols[] = {{"cuThing", 12000, false, &here}, {"cuThing", 13050, false, nullptr}};
    void* address = &here;
    CUdriverProcAddressQueryResult status{};
    EXPECT_EQ(get_proc_address(symbols, 13050, "cuThing", &address, 13050, 0, &status), CUDA_SUCCESS);
    EXPECT_EQ(address, nullptr);
    EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

TEST(Symbols, A1_the_form_before_12_leaves_the_pointer_alone) {
    int kept = 0;
    void* address = &kept;
    EXPECT_EQ(get_proc_address_v1(driver_symbols(), 12040, "cuNoSuchCall", &address, 12000, 0), CUDA_ERROR_NOT_FOUND);
    EXPECT_EQ(address, &kept);
    EXPECT_EQ(get_proc_address_v1(driver_symbols(), 12040, "cuInit", &address, 12000, 0), CUDA_SUCCESS);
    EXPECT_EQ(symbol_at(address), "cuInit");
    EXPECT_EQ(get_proc_address_v1(driver_symbols(), 12040, "cuInit", &address, 13000, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST(Symbols, A1_an_unknown_name_is_an_error_for_those_who_say_so) {
    int anything = 0;
    void* address = &anything;
    EXPECT_EQ(get_proc_address(driver_symbols(), 13000, "cuNoSuchCall", &address, 12000, 0, nullptr, UnknownSymbol::not_found),
              CUDA_ERROR_NOT_FOUND);
    EXPECT_EQ(address, nullptr);
}

TEST(Symbols, B1_each_is_found_by_its_own_name_and_version) {
    for (const Pinned& entry : pinned()) {
        EXPECT_EQ(ask(entry.name.c_str(), entry.version, entry.per_thread ? k_per_thread : 0), found(entry.symbol.c_str()));
    }
}

TEST(Symbols, B1_the_highest_version_not_above_the_one_asked_for) {
    EXPECT_EQ(ask("cuMemAlloc", 3020), found("cuMemAlloc_v2"));
    EXPECT_EQ(ask("cuMemAlloc", 13000), found("cuMemAlloc_v2"));
    EXPECT_EQ(ask("cuMemAlloc", 3019), found("cuMemAlloc"));
    EXPECT_EQ(ask("cuDevicePrimaryCtxRelease", 7000), found("cuDevicePrimaryCtxRelease"));
    EXPECT_EQ(ask("cuDevicePrimaryCtxRelease", 11000), found("cuDevicePrimaryCtxRelease_v2"));
    EXPECT_EQ(ask("cuDeviceGetUuid", 9020), found("cuDeviceGetUuid"));
    EXPECT_EQ(ask("cuCtxGetDevice", 2000), found("cuCtxGetDevice"));
    EXPECT_EQ(ask("cuCtxGetDevice", 13000), found("cuCtxGetDevice_v2"));
    EXPECT_EQ(ask("cuStreamGetCaptureInfo", 10010), found("cuStreamGetCaptureInfo"));
    EXPECT_EQ(ask("cuStreamGetCaptureInfo", 11030), found("cuStreamGetCaptureInfo_v2"));
    EXPECT_EQ(ask("cuStreamGetCaptureInfo", 12030), found("cuStreamGetCaptureInfo_v3"));
    EXPECT_EQ(ask("cuGetProcAddress", 11030), found("cuGetProcAddress"));
    EXPECT_EQ(ask("cuGetProcAddress", 12000), found("cuGetProcAddress_v2"));
    EXPECT_EQ(ask("cuEventElapsedTime", 12080), found("cuEventElapsedTime_v2"));
}

TEST(Symbols, B1_graph_instantiation_has_two_forms_and_a_name_of_its_own) {
    EXPECT_EQ(ask("cuGraphInstantiate", 10000), found("cuGraphInstantiate"));
    EXPECT_EQ(ask("cuGraphInstantiate", 11000), found("cuGraphInstantiate_v2"));
    EXPECT_EQ(ask("cuGraphInstantiateWithFlags", 11040), found("cuGraphInstantiateWithFlags"));
}

TEST(Symbols, B1_per_thread_forms_with_the_ordinary_one_to_fall_back_on) {
    EXPECT_EQ(ask("cuLaunchKernel", 7000, k_per_thread), found("cuLaunchKernel_ptsz"));
    EXPECT_EQ(ask("cuLaunchKernel", 7000), found("cuLaunchKernel"));
    EXPECT_EQ(ask("cuMemcpyHtoD", 7000, k_per_thread), found("cuMemcpyHtoD_v2_ptds"));
    EXPECT_EQ(ask("cuMemcpyHtoD", 3020, k_per_thread), found("cuMemcpyHtoD_v2"));
    EXPECT_EQ(ask("cuMemAlloc", 13000, k_per_thread), found("cuMemAlloc_v2"));
    EXPECT_EQ(ask("cuStreamBeginCapture", 10010, k_per_thread), found("cuStreamBeginCapture_v2_ptsz"));
    EXPECT_EQ(ask("cuLaunchKernel", 7000, CU_GET_PROC_ADDRESS_LEGACY_STREAM), found("cuLaunchKernel"));
}

TEST(Symbols, B1_what_is_not_there) {
    EXPECT_EQ(ask("", 0), k_unknown);  // libcudart's first question
    EXPECT_EQ(ask("cuWGLGetDevice", 2020), k_unknown);
    EXPECT_EQ(ask("cuMemAlloc_v2", 13000), k_unknown);
    EXPECT_EQ(ask("cuLaunchKernelEx", 11050), k_too_old);
    EXPECT_EQ(ask("cuLaunchKernelEx", 11050, k_per_thread), k_too_old);
}

TEST(Symbols, B1_wrong_arguments) {
    void* address = nullptr;
    EXPECT_EQ(get_proc_address(driver_symbols(), 13000, nullptr, &address, 13000, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(get_proc_address(driver_symbols(), 13000, "cuInit", nullptr, 13000, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(get_proc_address(driver_symbols(), 13000, "cuInit", &address, 13000, 4, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(get_proc_address(driver_symbols(), 13000, "cuInit", &address, 13000, 3, nullptr), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(get_proc_address(driver_symbols(), 13000, "cuInit", &address, 13000, 0, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(symbol_at(address), "cuInit");
}

}  // namespace
}  // namespace warpline::cuda::abi
