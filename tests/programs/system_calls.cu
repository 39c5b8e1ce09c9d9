// Reads and writes of files, pipes and sockets whose bytes are in memory that program and device share: before, behind and
// beside kernels that use it, in all the ways that programs have (A7).
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "check.h"

__global__ void add(unsigned char* data, size_t n, int what) {
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) data[i] += what;
}
// Ends when it is told to.
__global__ void last(volatile int* go_on) {
    while (*go_on) {
    }
}

// A file whose bytes are told by their place, and what of it, plus something, is to be where.
class File {
public:
    explicit File(size_t size) : m_bytes(size) {
        m_fd = mkstemp(m_name);
        for (size_t i = 0; i < size; ++i) m_bytes[i] = static_cast<unsigned char>(i * 7 + i / 251);
        EXPECT_EQ(write(m_fd, m_bytes.data(), size), static_cast<ssize_t>(size));
    }
    ~File() {
        close(m_fd);
        unlink(m_name);
    }
    int fd() const {
        lseek(m_fd, 0, SEEK_SET);
        return m_fd;
    }
    const char* name() const { return m_name; }
    const unsigned char* bytes() const { return m_bytes.data(); }
    void expect(const unsigned char* data, int plus) const {
        for (size_t i = 0; i < m_bytes.size(); ++i)
            EXPECT_EQ(static_cast<int>(data[i]), static_cast<int>(static_cast<unsigned char>(m_bytes[i] + plus)));
    }
    void expect_written(int plus) const {
        std::vector<unsigned char> found(m_bytes.size());
        EXPECT_EQ(pread(m_fd, found.data(), found.size(), 0), static_cast<ssize_t>(found.size()));
        expect(found.data(), plus);
    }

private:
    char m_name[32] = "/tmp/system_calls_XXXXXX";
    int m_fd = -1;
    std::vector<unsigned char> m_bytes;
};

struct Memory {
    unsigned char *here, *device;
    size_t size;
    // The device has it all, and the program has been told that it rests.
    void use() const {
        add<<<8, 128>>>(device, size, 1);
        CHECK(cudaDeviceSynchronize());
    }
};

static void read_in_all_ways(const Memory& memory, const File& file) {
    const auto size = static_cast<ssize_t>(memory.size);
    const auto check = [&](ssize_t got) {
        EXPECT_EQ(got, size);
        file.expect(memory.here, 0);
        memory.use();
    };
    check(read(file.fd(), memory.here, memory.size));
    check(pread(file.fd(), memory.here, memory.size, 0));
    iovec halves[2] = {{memory.here, memory.size / 2}, {memory.here + memory.size / 2, memory.size - memory.size / 2}};
    check(readv(file.fd(), halves, 2));
    check(preadv(file.fd(), halves, 2, 0));
    FILE* stream = fopen(file.name(), "rb");
    check(static_cast<ssize_t>(fread(memory.here, 1, memory.size, stream)));
    // Its end, and what is behind it stays.
    EXPECT_EQ(fseek(stream, -50, SEEK_END), 0);
    EXPECT_EQ(fread(memory.here, 20, 5, stream), 2u);
    EXPECT(feof(stream) && !ferror(stream));
    EXPECT_EQ(static_cast<int>(memory.here[memory.size - 1]), (file.bytes()[memory.size - 1] + 1) % 256);
    fclose(stream);
    memory.use();
    std::ifstream opened(file.name(), std::ios::binary);
    opened.read(reinterpret_cast<char*>(memory.here), size);
    check(opened.gcount());
}

static void write_in_all_ways(const Memory& memory, const File& file) {
    const auto size = static_cast<ssize_t>(memory.size);
    int plus = 0;
    memcpy(memory.here, file.bytes(), memory.size);
    const auto written = [&](auto how) {
        const File other(memory.size);
        memory.use();
        how(other);
        other.expect_written(++plus);
    };
    written([&](const File& to) { EXPECT_EQ(write(to.fd(), memory.here, memory.size), size); });
    written([&](const File& to) { EXPECT_EQ(pwrite(to.fd(), memory.here, memory.size, 0), size); });
    written([&](const File& to) {
        iovec halves[2] = {{memory.here, memory.size / 2}, {memory.here + memory.size / 2, memory.size - memory.size / 2}};
        EXPECT_EQ(writev(to.fd(), halves, 2), size);
    });
    written([&](const File& to) {
        FILE* stream = fopen(to.name(), "wb");
        EXPECT_EQ(fwrite(memory.here, 1, memory.size, stream), memory.size);
        EXPECT_EQ(fclose(stream), 0);
    });
    written([&](const File& to) {
        std::ofstream stream(to.name(), std::ios::binary);
        stream.write(reinterpret_cast<const char*>(memory.here), size);
        EXPECT(stream.good());
    });
}

static void over_sockets(const Memory& memory, const File& file) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    memory.use();
    std::thread sender([&] {
        for (size_t done = 0; done < memory.size;)
            done += static_cast<size_t>(send(ends[0], file.bytes() + done, memory.size - done, 0));
    });
    for (size_t done = 0; done < memory.size;) {
        const ssize_t got = recv(ends[1], memory.here + done, memory.size - done, 0);
        EXPECT(got > 0);
        done += static_cast<size_t>(got);
    }
    sender.join();
    file.expect(memory.here, 0);
    // Someone waits in recvmsg() while the memory goes to the device.
    std::thread receiver([&] {
        iovec part{memory.here, 1000};
        msghdr message{};
        message.msg_iov = &part, message.msg_iovlen = 1;
        EXPECT_EQ(recvmsg(ends[1], &message, MSG_WAITALL), 1000);
    });
    for (int i = 0; i < 5; ++i) memory.use();
    EXPECT_EQ(write(ends[0], file.bytes() + 1000, 1000), 1000);
    receiver.join();
    EXPECT_EQ(memcmp(memory.here, file.bytes() + 1000, 1000), 0);
    close(ends[0]);
    close(ends[1]);
}

// A kernel runs, and this memory is not its affair: page-locked memory can be read into as at any time.
static void beside_a_kernel(const Memory& memory, const File& file) {
    int *go_on, *device;
    CHECK(cudaHostAlloc(&go_on, sizeof *go_on, cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer(&device, go_on, 0));
    memory.use();
    *go_on = 1;
    last<<<1, 1>>>(device);
    CHECK(cudaGetLastError());
    for (int i = 0; i < 5; ++i) EXPECT_EQ(read(file.fd(), memory.here, memory.size), static_cast<ssize_t>(memory.size));
    *static_cast<volatile int*>(go_on) = 0;
    CHECK(cudaDeviceSynchronize());
    file.expect(memory.here, 0);
    CHECK(cudaFreeHost(go_on));
}

static void check_all(const Memory& memory, bool page_locked) {
    const File file(memory.size);
    EXPECT_EQ(read(file.fd(), memory.here, memory.size), static_cast<ssize_t>(memory.size));
    file.expect(memory.here, 0);
    read_in_all_ways(memory, file);
    write_in_all_ways(memory, file);
    over_sockets(memory, file);
    if (page_locked) beside_a_kernel(memory, file);
    // What is no memory is none.
    void* volatile nowhere = reinterpret_cast<void*>(16);
    EXPECT(read(file.fd(), nowhere, 10) == -1 && errno == EFAULT);
}

int main(int argc, char** argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    for (size_t size : {size_t{4000}, size_t{1000001}}) {
        Memory memory{nullptr, nullptr, size};
        if (what == "managed") {
            CHECK(cudaMallocManaged(&memory.here, size));
            memory.device = memory.here;
        } else if (what == "mapped") {
            CHECK(cudaHostAlloc(&memory.here, size, cudaHostAllocMapped));
            CHECK(cudaHostGetDevicePointer(&memory.device, memory.here, 0));
        } else {
            memory.here = static_cast<unsigned char*>(malloc(size));
            CHECK(cudaHostRegister(memory.here, size, cudaHostRegisterMapped));
            CHECK(cudaHostGetDevicePointer(&memory.device, memory.here, 0));
        }
        check_all(memory, what != "managed");
        if (what == "managed") {
            CHECK(cudaFree(memory.here));
        } else if (what == "mapped") {
            CHECK(cudaFreeHost(memory.here));
        } else {
            CHECK(cudaHostUnregister(memory.here));
            free(memory.here);
        }
    }
    return passed(what.c_str());
}
