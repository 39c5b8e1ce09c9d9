// What `warpline run` preloads, preloaded: it asks the compilers that a program finds by dlsym() for line information.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace {

using Compile = int (*)(void*, int, const char* const*);
using CreateLink = int (*)(void**, uint32_t, const char**);

struct Compiler {
    explicit Compiler(const char* path) : library(::dlopen(path, RTLD_NOW | RTLD_LOCAL)) {}

    template <typename F>
    F find(const char* name) const {
        return reinterpret_cast<F>(::dlsym(library, name));
    }
    std::string options() const { return find<const char* (*)()>("fake_options")(); }

    void* library;
};

class Preload : public testing::Test {
protected:
    void SetUp() override {
        ASSERT_NE(first.library, nullptr) << ::dlerror();
        ASSERT_NE(second.library, nullptr) << ::dlerror();
    }
    Compiler first{FAKE_FIRST}, second{FAKE_SECOND};
};

TEST_F(Preload, MachineCodeGetsLineInformation) {
    struct Case {
        std::vector<const char*> options;
        std::string seen;
    };
    for (const Case& c :
         {Case{{"-arch=sm_89"}, "-arch=sm_89 -lineinfo"},
          Case{{"--gpu-architecture=sm_100a", "-I."}, "--gpu-architecture=sm_100a -I. -lineinfo"},
          Case{{"-arch", "sm_89"}, "-arch sm_89 -lineinfo"}, Case{{"-arch=compute_89"}, "-arch=compute_89"},
          Case{{"-G", "-arch=sm_89"}, "-G -arch=sm_89"}, Case{{"-arch=sm_89", "-lineinfo"}, "-arch=sm_89 -lineinfo"}}) {
        std::vector<const char*> options = c.options;
        auto compile = first.find<Compile>("nvrtcCompileProgram");
        EXPECT_EQ(compile(nullptr, static_cast<int>(options.size()), options.data()), 1);
        EXPECT_EQ(first.options(), c.seen);
        auto create = first.find<CreateLink>("__nvJitLinkCreate_13_9");
        EXPECT_EQ(create(nullptr, static_cast<uint32_t>(options.size()), options.data()), 1);
        EXPECT_EQ(first.options(), c.seen);
    }
}

TEST_F(Preload, EachLibraryKeepsItsOwnFunctions) {
    const char* options[] = {"-arch=sm_89"};
    for (const char* name : {"nvrtcCompileProgram", "__nvJitLinkCreate_13_9"}) {
        void* one = ::dlsym(first.library, name);
        void* other = ::dlsym(second.library, name);
        ASSERT_NE(one, nullptr);
        EXPECT_NE(one, other);
        EXPECT_EQ(one, ::dlsym(first.library, name)) << "the same each time";
    }
    EXPECT_EQ(second.find<Compile>("nvrtcCompileProgram")(nullptr, 1, options), 2);
    EXPECT_EQ(first.find<Compile>("nvrtcCompileProgram")(nullptr, 1, options), 1);
    EXPECT_EQ(second.options(), "-arch=sm_89 -lineinfo");
    EXPECT_EQ(second.find<int (*)(void**)>("nvJitLinkDestroy")(nullptr), 2) << "what is not wrapped is the library's";
}

TEST_F(Preload, WhatIsNotThereIsNotFound) {
    ASSERT_EQ(::dlsym(first.library, "__nvJitLinkCreate_99_9"), nullptr);
    const char* why = ::dlerror();
    ASSERT_NE(why, nullptr);
    EXPECT_NE(std::string(why).find("__nvJitLinkCreate_99_9"), std::string::npos) << why;
    EXPECT_EQ(::dlsym(first.library, "no_such_function"), nullptr);
}

// Whose default and next are meant follows from who asks, and that must not be the preloaded library.
TEST_F(Preload, DefaultAndNextAreThoseOfTheCaller) {
    EXPECT_NE(::dlsym(RTLD_DEFAULT, "malloc"), nullptr);
    void* own = ::dlsym(RTLD_DEFAULT, "dlsym");
    void* next = ::dlsym(RTLD_NEXT, "dlsym");
    ASSERT_NE(own, nullptr);
    EXPECT_EQ(own, next) << "after this program comes what is preloaded; after that it would be glibc's";
}

}  // namespace
