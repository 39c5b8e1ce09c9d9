// Images that are none, PTX that does not compile, files, linking, and the options of compilations.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/gpu/probe/question.h"

namespace warpline::probe {

namespace {

constexpr const char* k_broken =
    ".version 6.3\n.target sm_75\n.address_size 64\n.visible .entry bad()\n{\n    nonsense.u32 %r1;\n}\n";
constexpr const char* k_newer = ".version 99.0\n.target sm_75\n.address_size 64\n.visible .entry f()\n{\n    ret;\n}\n";

int load(Asker& a, const void* image) {
    CUmodule module = nullptr;
    return WL_CU(a.driver, cuModuleLoadData)(&module, image);
}

/// A file with the text, deleted when it goes.
class File {
public:
    explicit File(const char* text) {
        std::strcpy(m_path, "/tmp/warpline-probe-XXXXXX");
        const int file = ::mkstemp(m_path);
        if (file < 0 || ::write(file, text, std::strlen(text)) < 0) throw NoFixture{"file", 0};
        ::close(file);
    }
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    ~File() { ::unlink(m_path); }
    const char* path() const { return m_path; }

private:
    char m_path[64];
};

void add_loading(Questions& all) {
    const Group ask(all, Stage::context, "images");
    ask("image/garbage", [](Asker& a) {
        unsigned char garbage[64];
        for (size_t i = 0; i < sizeof garbage; ++i) garbage[i] = static_cast<unsigned char>(0xde + i * 7);
        garbage[63] = 0;
        return load(a, garbage);
    });
    ask("image/text", [](Asker& a) { return load(a, "these are words, and no program\n"); });
    ask("image/target-first", [](Asker& a) { return load(a, ".target sm_75\n.version 6.3\n.address_size 64\n"); });
    ask("image/comment-first",
        [](Asker& a) { return load(a, (std::string("/* a comment\n before it */\n") + k_ptx).c_str()); });
    ask("image/bad-instruction", [](Asker& a) { return load(a, k_broken); });
    ask("image/newer-ptx", [](Asker& a) { return load(a, k_newer); });
    ask("image/empty-text", [](Asker& a) { return load(a, ""); });
    ask("image/library-garbage", [](Asker& a) {
        CUlibrary library = nullptr;
        return static_cast<int>(WL_CU(a.driver, cuLibraryLoadData)(&library, "these are words, and no program\n", nullptr,
                                                                   nullptr, 0, nullptr, nullptr, 0));
    });
    ask("file/empty", [](Asker& a) {
        CUmodule module = nullptr;
        return static_cast<int>(WL_CU(a.driver, cuModuleLoad)(&module, File("").path()));
    });
    ask("file/missing", [](Asker& a) {
        CUmodule module = nullptr;
        return static_cast<int>(WL_CU(a.driver, cuModuleLoad)(&module, "/nonexistent/warpline"));
    });
    ask("file/missing-library", [](Asker& a) {
        CUlibrary library = nullptr;
        return static_cast<int>(WL_CU(a.driver, cuLibraryLoadFromFile)(&library, "/nonexistent/warpline", nullptr, nullptr, 0,
                                                                       nullptr, nullptr, 0));
    });
    ask("link/empty-file", [](Asker& a) {
        auto state = reinterpret_cast<CUlinkState>(a.fixtures.fresh("link"));
        return static_cast<int>(
            WL_CU(a.driver, cuLinkAddFile_v2)(state, CU_JIT_INPUT_PTX, File("").path(), 0, nullptr, nullptr));
    });
    ask("link/missing-file", [](Asker& a) {
        auto state = reinterpret_cast<CUlinkState>(a.fixtures.fresh("link"));
        return static_cast<int>(
            WL_CU(a.driver, cuLinkAddFile_v2)(state, CU_JIT_INPUT_PTX, "/nonexistent/warpline", 0, nullptr, nullptr));
    });
    ask("link/unknown-input", [](Asker& a) {
        auto state = reinterpret_cast<CUlinkState>(a.fixtures.fresh("link"));
        std::string ptx = k_ptx;
        return static_cast<int>(WL_CU(a.driver, cuLinkAddData_v2)(state, static_cast<CUjitInputType>(9999), ptx.data(),
                                                                  ptx.size() + 1, "x", 0, nullptr, nullptr));
    });
    ask("library/preserved-null-values", [](Asker& a) {
        CUlibrary library = nullptr;
        CUlibraryOption option = CU_LIBRARY_BINARY_IS_PRESERVED;
        return static_cast<int>(WL_CU(a.driver, cuLibraryLoadData)(&library, k_ptx, nullptr, nullptr, 0, &option, nullptr, 1));
    });
    ask("library/unknown-option", [](Asker& a) {
        CUlibrary library = nullptr;
        auto option = static_cast<CUlibraryOption>(9999);
        void* value = nullptr;
        return static_cast<int>(WL_CU(a.driver, cuLibraryLoadData)(&library, k_ptx, nullptr, nullptr, 0, &option, &value, 1));
    });
    ask("library/null-options", [](Asker& a) {
        CUlibrary library = nullptr;
        return static_cast<int>(WL_CU(a.driver, cuLibraryLoadData)(&library, k_ptx, nullptr, nullptr, 1, nullptr, nullptr, 0));
    });
}

/// Logs and their options, as programs pass them.
struct Logs {
    char info[2048], error[2048];
    std::vector<CUjit_option> options;
    std::vector<void*> values;

    Logs() {
        std::memset(info, 'x', sizeof info);
        std::memset(error, 'x', sizeof error);
        add(CU_JIT_INFO_LOG_BUFFER, info);
        add(CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, reinterpret_cast<void*>(sizeof info));
        add(CU_JIT_ERROR_LOG_BUFFER, error);
        add(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, reinterpret_cast<void*>(sizeof error));
        add(CU_JIT_LOG_VERBOSE, reinterpret_cast<void*>(uintptr_t{1}));
        add(CU_JIT_WALL_TIME, reinterpret_cast<void*>(uintptr_t{0x12345678}));
    }
    void add(CUjit_option option, void* value) {
        options.push_back(option);
        values.push_back(value);
    }
    unsigned count() const { return static_cast<unsigned>(options.size()); }

    void describe(Asker& a) const {
        const auto info_size = reinterpret_cast<uintptr_t>(values[1]);
        const auto error_size = reinterpret_cast<uintptr_t>(values[3]);
        a.value("info_size_written", info_size != sizeof info);
        a.value("error_size_written", error_size != sizeof error);
        a.value("error_some", error_size > 0 && error_size < sizeof error && error[0] != 'x' && error[0] != '\0');
        a.value("error_size_fits", error_size < sizeof error && ::strnlen(error, sizeof error) <= error_size &&
                                       ::strnlen(error, sizeof error) + 1 >= error_size);
        float ms = -1;
        std::memcpy(&ms, &values[5], sizeof ms);
        a.value("wall_time_sane", ms >= 0 && ms < 60000 && reinterpret_cast<uintptr_t>(values[5]) != 0x12345678);
    }
};

}  // namespace

void add_images(Questions& all) { add_loading(all); }

void add_jit(Questions& all) {
    const Group alone(all, Stage::context, "");  // what is seen once in a process has one of its own
    alone("jit/success", [](Asker& a) {
        Logs logs;
        CUmodule module = nullptr;
        const int result =
            WL_CU(a.driver, cuModuleLoadDataEx)(&module, k_ptx, logs.count(), logs.options.data(), logs.values.data());
        logs.describe(a);
        return result;
    });
    alone("jit/first-failure", [](Asker& a) {
        Logs logs;
        CUmodule module = nullptr;
        const int result =
            WL_CU(a.driver, cuModuleLoadDataEx)(&module, k_broken, logs.count(), logs.options.data(), logs.values.data());
        logs.describe(a);
        return result;
    });
    alone("jit/second-failure", [](Asker& a) {
        CUmodule module = nullptr;
        Logs first;
        WL_CU(a.driver, cuModuleLoadDataEx)(&module, k_broken, first.count(), first.options.data(), first.values.data());
        Logs logs;
        const int result =
            WL_CU(a.driver, cuModuleLoadDataEx)(&module, k_broken, logs.count(), logs.options.data(), logs.values.data());
        logs.describe(a);
        return result;
    });
    alone("jit/library-failure", [](Asker& a) {
        CUlibrary library = nullptr;
        Logs logs;
        const int result = WL_CU(a.driver, cuLibraryLoadData)(&library, k_broken, logs.options.data(), logs.values.data(),
                                                              logs.count(), nullptr, nullptr, 0);
        logs.describe(a);
        return result;
    });
    alone("jit/link", [](Asker& a) {
        CUlinkState state = nullptr;
        Logs logs;
        made("link", WL_CU(a.driver, cuLinkCreate_v2)(logs.count(), logs.options.data(), logs.values.data(), &state));
        std::string ptx = k_ptx;
        made("add", WL_CU(a.driver, cuLinkAddData_v2)(state, CU_JIT_INPUT_PTX, ptx.data(), ptx.size() + 1, "probe", 0, nullptr,
                                                      nullptr));
        void* image = nullptr;
        size_t size = 0;
        const int result = WL_CU(a.driver, cuLinkComplete)(state, &image, &size);
        logs.describe(a);
        a.value("loads", result == CUDA_SUCCESS ? load(a, image) : -1);
        WL_CU(a.driver, cuLinkDestroy)(state);
        return result;
    });
    alone("jit/link-failure", [](Asker& a) {
        CUlinkState state = nullptr;
        Logs logs;
        made("link", WL_CU(a.driver, cuLinkCreate_v2)(logs.count(), logs.options.data(), logs.values.data(), &state));
        std::string ptx = k_broken;
        const int result = WL_CU(a.driver, cuLinkAddData_v2)(state, CU_JIT_INPUT_PTX, ptx.data(), ptx.size() + 1, "probe", 0,
                                                             nullptr, nullptr);
        logs.describe(a);
        return result;
    });
    alone("jit/unknown-option", [](Asker& a) {
        CUmodule module = nullptr;
        auto option = static_cast<CUjit_option>(9999);
        void* value = nullptr;
        return static_cast<int>(WL_CU(a.driver, cuModuleLoadDataEx)(&module, k_ptx, 1, &option, &value));
    });
    alone("jit/null-options", [](Asker& a) {
        CUmodule module = nullptr;
        return static_cast<int>(WL_CU(a.driver, cuModuleLoadDataEx)(&module, k_ptx, 1, nullptr, nullptr));
    });
    alone("jit/small-error-buffer", [](Asker& a) {
        CUmodule module = nullptr;
        char error[9];
        std::memset(error, 'x', sizeof error);
        CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
        void* values[] = {error, reinterpret_cast<void*>(uintptr_t{8})};
        const int result = WL_CU(a.driver, cuModuleLoadDataEx)(&module, k_broken, 2, options, values);
        a.value("ends", ::strnlen(error, 8) < 8);
        a.value("beyond_untouched", error[8] == 'x');
        a.value("size", static_cast<int64_t>(reinterpret_cast<uintptr_t>(values[1])));
        return result;
    });
}

}  // namespace warpline::probe
