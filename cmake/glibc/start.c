// The start of a program, for glibc before 2.34: there a program's own file runs its constructors. Later ones run them where none is
// named, as the machine's crt1.o has it; and do what they are told where one is.
#include <stddef.h>

typedef int main_function(int, char**, char**);
typedef void start_function(int, char**, char**);

extern start_function* __preinit_array_start[] __attribute__((visibility("hidden")));
extern start_function* __preinit_array_end[] __attribute__((visibility("hidden")));
extern start_function* __init_array_start[] __attribute__((visibility("hidden")));
extern start_function* __init_array_end[] __attribute__((visibility("hidden")));
void _init(void);

static void construct(int count, char** arguments, char** environment) {
    for (start_function** function = __preinit_array_start; function != __preinit_array_end; ++function) (*function)(count, arguments, environment);
    _init();
    for (start_function** function = __init_array_start; function != __init_array_end; ++function) (*function)(count, arguments, environment);
}

int __real___libc_start_main(main_function*, int, char**, start_function*, void (*)(void), void (*)(void), void*);
int __wrap___libc_start_main(main_function*, int, char**, start_function*, void (*)(void), void (*)(void), void*);

int __wrap___libc_start_main(main_function* program, int count, char** arguments, start_function* init, void (*end)(void), void (*unload)(void),
                             void* stack) {
    (void)init;
    return __real___libc_start_main(program, count, arguments, construct, end, unload, stack);
}
