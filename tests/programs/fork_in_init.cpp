// Forks while another thread is inside of cuInit, which waits for a server that never answers. The child has no session and no
// hope of one, and must be told so. A line on standard input says that the server has been reached.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

int main() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    auto init = reinterpret_cast<int (*)(unsigned)>(library ? dlsym(library, "cuInit") : nullptr);
    auto version = reinterpret_cast<int (*)(int*)>(library ? dlsym(library, "cuDriverGetVersion") : nullptr);
    if (!init || !version) return 1;
    std::thread([init] { init(0); }).detach();
    std::getchar();
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        int number = 0;
        const int result = init(0);
        const int asked = version(&number);
        std::exit(result == 3 && asked == 0 && number > 0 ? 0 : 1);  // CUDA_ERROR_NOT_INITIALIZED
    }
    int status = -1;
    waitpid(child, &status, 0);
    std::printf("child: %s %d\n", WIFEXITED(status) ? "exit" : "signal",
                WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    std::fflush(stdout);
    _exit(0);
}
