// Names, lists and answers of system calls in memory that program and device share, while the device has it; and the same calls
// by a table of functions (A7).
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>

#include "check.h"

// A kernel that may use memory: that it does not is not to be known before.
__global__ void touch(unsigned char* data, size_t n) {
    if (n == 0) *data = 1;
}

// Page-locked memory of three parts, far from each other. `give` lets the device have it all: from then on the program has none
// of its pages until it comes to them, for nothing is waited for.
struct Shared {
    static const size_t k_part = 512 << 10;
    unsigned char* bytes;
    Shared() {
        CHECK(cudaHostAlloc(&bytes, 3 * k_part, cudaHostAllocMapped));
        memset(bytes, 0, 3 * k_part);
    }
    ~Shared() { CHECK(cudaFreeHost(bytes)); }
    void give() const {
        touch<<<1, 1>>>(bytes, 3 * k_part);
        CHECK(cudaGetLastError());
    }
    template <typename T>
    T* at(int part) const {
        return reinterpret_cast<T*>(bytes + part * k_part);
    }
};

static const size_t k_size = 200000;  // more than comes along with anything
static unsigned char expected(size_t i) { return static_cast<unsigned char>(i * 11 + i / 253); }
static void fill(unsigned char* data) {
    for (size_t i = 0; i < k_size; ++i) data[i] = expected(i);
}
static void check(const unsigned char* data) {
    for (size_t i = 0; i < k_size; ++i) EXPECT_EQ(static_cast<int>(data[i]), static_cast<int>(expected(i)));
}

// A file with bytes in it that are known.
struct File {
    char name[32] = "/tmp/kernel_buffers_XXXXXX";
    int fd;
    File() : fd(mkstemp(name)) {
        std::vector<unsigned char> bytes(k_size);
        fill(bytes.data());
        EXPECT_EQ(pwrite(fd, bytes.data(), k_size, 0), static_cast<ssize_t>(k_size));
    }
    ~File() {
        close(fd);
        unlink(name);
    }
    void check_bytes() const {
        std::vector<unsigned char> bytes(k_size);
        EXPECT_EQ(pread(fd, bytes.data(), k_size, 0), static_cast<ssize_t>(k_size));
        check(bytes.data());
    }
};

static void reads(const Shared& shared, const File& file) {
    unsigned char* data = shared.at<unsigned char>(0);
    auto* parts = shared.at<iovec>(2);  // the list itself as well
    const auto clear = [&] { memset(data, 0, k_size), shared.give(); };
    parts[0] = {data, 1000}, parts[1] = {data + 1000, k_size - 1000};
    clear();
    EXPECT_EQ(preadv2(file.fd, parts, 2, 0, 0), static_cast<ssize_t>(k_size));
    check(data);
    std::vector<unsigned char> source(k_size);
    fill(source.data());
    clear();
    const iovec from{source.data(), k_size};
    EXPECT_EQ(process_vm_readv(getpid(), parts, 2, &from, 1, 0), static_cast<ssize_t>(k_size));
    check(data);
    clear();
    size_t got = 0;
    while (got < k_size) {
        const ssize_t one = getrandom(data + got, k_size - got, 0);
        EXPECT(one > 0);
        got += static_cast<size_t>(one);
    }
    EXPECT(std::count(data, data + k_size, 0) < static_cast<long>(k_size) / 100);
    clear();
    EXPECT_EQ(getentropy(data, 256), 0);
    EXPECT(std::count(data, data + 256, 0) < 50);
}

static void writes(const Shared& shared) {
    unsigned char* data = shared.at<unsigned char>(0);
    auto* parts = shared.at<iovec>(2);
    fill(data);
    parts[0] = {data, 1000}, parts[1] = {data + 1000, k_size - 1000};
    const File file;
    EXPECT_EQ(ftruncate(file.fd, 0), 0);
    shared.give();
    EXPECT_EQ(pwritev2(file.fd, parts, 2, 0, 0), static_cast<ssize_t>(k_size));
    file.check_bytes();
    std::vector<unsigned char> target(k_size);
    const iovec to{target.data(), k_size};
    shared.give();
    EXPECT_EQ(process_vm_writev(getpid(), parts, 2, &to, 1, 0), static_cast<ssize_t>(k_size));
    check(target.data());
    // From file to file, where the kernel keeps the places.
    const File other;
    EXPECT_EQ(ftruncate(other.fd, 0), 0);
    off_t* place = shared.at<off_t>(1);
    place[0] = 0;
    shared.give();
    EXPECT_EQ(sendfile(other.fd, file.fd, place, k_size), static_cast<ssize_t>(k_size));
    EXPECT_EQ(place[0], static_cast<off_t>(k_size));
    other.check_bytes();
}

static void messages(const Shared& shared) {
    const int k_messages = 4, k_bytes = 9000;
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends), 0);
    unsigned char* data = shared.at<unsigned char>(0);
    unsigned char* back = data + k_size;
    auto* list = shared.at<mmsghdr>(1);
    auto* parts = shared.at<iovec>(2);
    const auto set = [&](unsigned char* bytes) {
        for (int i = 0; i < k_messages; ++i) {
            parts[i] = {bytes + i * k_bytes, static_cast<size_t>(k_bytes)};
            list[i] = {};
            list[i].msg_hdr.msg_iov = &parts[i];
            list[i].msg_hdr.msg_iovlen = 1;
        }
        shared.give();
    };
    fill(data);
    memset(back, 0, k_size);
    set(data);
    EXPECT_EQ(sendmmsg(ends[0], list, k_messages, 0), k_messages);
    for (int i = 0; i < k_messages; ++i) EXPECT_EQ(list[i].msg_len, static_cast<unsigned>(k_bytes));
    set(back);
    EXPECT_EQ(recvmmsg(ends[1], list, k_messages, MSG_WAITALL, nullptr), k_messages);
    for (int i = 0; i < k_messages; ++i) EXPECT_EQ(list[i].msg_len, static_cast<unsigned>(k_bytes));
    for (int i = 0; i < k_messages * k_bytes; ++i) EXPECT_EQ(static_cast<int>(back[i]), static_cast<int>(expected(i)));
    // Somebody waits for a message while the memory goes to the device: it is there once, and not to be lost.
    for (const int how : {0, 1, 2, 3}) {
        memset(back, 0, k_bytes);
        std::thread receiver([&] {
            parts[0] = {back, 100}, parts[1] = {back + 100, static_cast<size_t>(k_bytes)};
            msghdr* one = &list[0].msg_hdr;
            *one = {};
            one->msg_iov = parts, one->msg_iovlen = 2;
            EXPECT_EQ(how == 0   ? recv(ends[1], back, 2 * k_bytes, 0)
                      : how == 1 ? recvfrom(ends[1], back, 2 * k_bytes, 0, nullptr, nullptr)
                      : how == 2 ? recvmsg(ends[1], one, 0)
                                 : read(ends[1], back, 2 * k_bytes),
                      k_bytes);
        });
        for (int i = 0; i < 5; ++i) shared.give();
        EXPECT_EQ(send(ends[0], data, k_bytes, 0), k_bytes);
        receiver.join();
        EXPECT_EQ(memcmp(back, data, k_bytes), 0);
    }
    close(ends[0]);
    close(ends[1]);
}

static void sockets(const Shared& shared) {
    auto* address = shared.at<sockaddr_in>(0);
    auto* size = shared.at<socklen_t>(1);
    auto* value = shared.at<int>(2);
    const int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    *address = {};
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    *value = 1;
    shared.give();
    EXPECT_EQ(setsockopt(server, SOL_SOCKET, SO_REUSEADDR, value, sizeof *value), 0);
    shared.give();
    EXPECT_EQ(bind(server, reinterpret_cast<sockaddr*>(address), sizeof *address), 0);
    EXPECT_EQ(listen(server, 1), 0);
    *size = sizeof *address;
    shared.give();
    EXPECT_EQ(getsockname(server, reinterpret_cast<sockaddr*>(address), size), 0);
    EXPECT(address->sin_port != 0 && *size == sizeof *address);
    shared.give();
    EXPECT_EQ(connect(client, reinterpret_cast<sockaddr*>(address), sizeof *address), 0);
    const in_port_t port = address->sin_port;
    shared.give();
    const int accepted = accept(server, reinterpret_cast<sockaddr*>(address), size);
    EXPECT(accepted >= 0 && address->sin_port != port);
    shared.give();
    EXPECT_EQ(getpeername(client, reinterpret_cast<sockaddr*>(address), size), 0);
    EXPECT_EQ(address->sin_port, port);
    *size = sizeof *value;
    *value = -1;
    shared.give();
    EXPECT_EQ(getsockopt(client, SOL_SOCKET, SO_TYPE, value, size), 0);
    EXPECT_EQ(*value, static_cast<int>(SOCK_STREAM));
    for (const int fd : {server, client, accepted}) close(fd);
}

static void waits(const Shared& shared) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    EXPECT_EQ(write(ends[1], "x", 1), 1);
    auto* polled = shared.at<pollfd>(0);
    polled[0] = {ends[0], POLLIN, 0}, polled[1] = {ends[1], POLLOUT, 0};
    shared.give();
    EXPECT_EQ(poll(polled, 2, -1), 2);
    EXPECT(polled[0].revents == POLLIN && polled[1].revents == POLLOUT);
    auto* sets = shared.at<fd_set>(1);
    for (int i = 0; i < 2; ++i) {
        FD_ZERO(&sets[i]);
        FD_SET(ends[i], &sets[i]);
    }
    shared.give();
    EXPECT_EQ(select(std::max(ends[0], ends[1]) + 1, &sets[0], &sets[1], nullptr, nullptr), 2);
    EXPECT(FD_ISSET(ends[0], &sets[0]) && FD_ISSET(ends[1], &sets[1]));
    auto* event = shared.at<epoll_event>(2);
    const int epoll = epoll_create1(0);
    event->events = EPOLLIN, event->data.u64 = 77;
    shared.give();
    EXPECT_EQ(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], event), 0);
    *event = {};
    shared.give();
    EXPECT_EQ(epoll_wait(epoll, event, 8, -1), 1);
    EXPECT(event->data.u64 == 77 && (event->events & EPOLLIN) != 0);
    for (const int fd : {epoll, ends[0], ends[1]}) close(fd);
}

static void names(const Shared& shared, const File& file) {
    char* name = shared.at<char>(0);
    auto* about = shared.at<struct stat>(1);
    auto* more = shared.at<struct statx>(2);
    struct stat wanted {};
    EXPECT_EQ(stat(file.name, &wanted), 0);
    strcpy(name, file.name);
    const auto check_stat = [&](auto how) {
        *about = {};
        shared.give();
        EXPECT_EQ(how(), 0);
        EXPECT_EQ(about->st_ino, wanted.st_ino);
        EXPECT_EQ(about->st_size, static_cast<off_t>(k_size));
    };
    check_stat([&] { return stat(name, about); });
    check_stat([&] { return lstat(name, about); });
    check_stat([&] { return fstat(file.fd, about); });
    check_stat([&] { return fstatat(AT_FDCWD, name, about, 0); });
    shared.give();
    EXPECT_EQ(statx(AT_FDCWD, name, 0, STATX_SIZE, more), 0);
    EXPECT_EQ(more->stx_size, static_cast<uint64_t>(k_size));
    shared.give();
    EXPECT_EQ(access(name, R_OK), 0);
    for (const bool relative : {false, true}) {
        shared.give();
        const int opened = relative ? openat(AT_FDCWD, name, O_RDONLY) : open(name, O_RDONLY);
        EXPECT(opened >= 0);
        close(opened);
    }
    shared.give();
    FILE* stream = fopen(name, "rb");
    EXPECT(stream != nullptr);
    fclose(stream);
    char* answer = shared.at<char>(1);
    shared.give();
    const ssize_t size = readlink("/proc/self/exe", answer, 4096);
    EXPECT(size > 0 && answer[0] == '/');
    shared.give();
    EXPECT(getcwd(answer, 4096) == answer && answer[0] == '/');
    // What is created, by a name that the device has.
    strcat(name, ".more");
    shared.give();
    const int created = open(name, O_CREAT | O_WRONLY, 0600);
    EXPECT(created >= 0 && fstat(created, &wanted) == 0);
    EXPECT_EQ(wanted.st_mode & 0777, 0600u);
    close(created);
    shared.give();
    EXPECT_EQ(unlink(name), 0);
    // What is no memory is none.
    void* volatile nowhere = reinterpret_cast<void*>(16);
    EXPECT(stat(static_cast<char*>(nowhere), &wanted) == -1 && errno == EFAULT);
    EXPECT(getrandom(nowhere, 8, 0) == -1 && errno == EFAULT);
}

// Tables that the dynamic linker fills in, as programs have them that let others stand in for the system.
struct System {
    const char* name;
    ssize_t (*read)(int, void*, size_t);
    ssize_t (*pread)(int, void*, size_t, off_t);
};
extern const System g_sealed[];
extern System g_changeable[];
const System g_sealed[] = {{"sealed", read, pread}};
System g_changeable[] = {{"changeable", read, pread}, {"changed", read, pread}};
static ssize_t reads_nothing(int, void*, size_t) { return 0; }

static void tables(const Shared& shared, const File& file) {
    unsigned char* data = shared.at<unsigned char>(0);
    const System* volatile sealed = g_sealed;
    for (const System* table : {static_cast<const System*>(sealed), static_cast<const System*>(g_changeable)}) {
        lseek(file.fd, 0, SEEK_SET);
        memset(data, 0, k_size);
        shared.give();
        EXPECT_EQ(table->read(file.fd, data, k_size), static_cast<ssize_t>(k_size));
        check(data);
        memset(data, 0, k_size);
        shared.give();
        EXPECT_EQ(table->pread(file.fd, data, k_size, 0), static_cast<ssize_t>(k_size));
        check(data);
    }
    // What the program has put there stays.
    EXPECT(g_changeable[1].read == reads_nothing);
}

// A library that is loaded while the device has the memory, and one that that loads from where it says.
static void loads(const Shared& shared, const File& file, const char* path, bool from_there) {
    using Read = ssize_t (*)(int, void*, size_t);
    unsigned char* data = shared.at<unsigned char>(0);
    const auto reads_with = [&](Read read_into) {
        EXPECT(read_into != nullptr);
        EXPECT_EQ(lseek(file.fd, 0, SEEK_SET), 0);
        EXPECT_EQ(read_into(file.fd, data, k_size), static_cast<ssize_t>(k_size));
        check(data);
    };
    memset(data, 0, k_size);
    shared.give();
    void* library = dlopen(path, RTLD_LAZY);
    EXPECT(library != nullptr);
    reads_with(reinterpret_cast<Read>(dlsym(library, "read_into")));
    if (!from_there) return;
    const auto load = reinterpret_cast<void* (*)(const char*)>(dlsym(library, "load"));
    memset(data, 0, k_size);
    shared.give();
    EXPECT(load("no such library") == nullptr && dlopen("libinner.so", RTLD_LAZY) == nullptr);
    void* inner = load("libinner.so");
    EXPECT(inner != nullptr);
    shared.give();
    reads_with(reinterpret_cast<Read>(dlsym(inner, "read_into")));
    EXPECT_EQ(reinterpret_cast<int (*)()>(dlsym(inner, "call_times"))(), 123);
}

int main(int argc, char** argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    g_changeable[1].read = reads_nothing;
    const Shared shared;
    const File file;
    shared.give();
    if (what == "reads")
        reads(shared, file);
    else if (what == "writes")
        writes(shared);
    else if (what == "messages")
        messages(shared);
    else if (what == "sockets")
        sockets(shared);
    else if (what == "waits")
        waits(shared);
    else if (what == "names")
        names(shared, file);
    else if (what == "tables")
        tables(shared, file);
    else if (what == "loads" && argc > 2)
        loads(shared, file, argv[2], argc > 3);
    else
        return 2;
    CHECK(cudaDeviceSynchronize());
    return passed(what.c_str());
}
