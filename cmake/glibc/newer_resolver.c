// What glibc 2.34 has moved from libresolv.so.2 into libc.so.6 under other names, and our code calls: here, so that what is shipped runs
// with older ones (make_stubs.py). (<resolv.h> is not included: it declares the newer names.)

#define HIDDEN __attribute__((visibility("hidden")))

struct __res_state;
int __res_nsearch(struct __res_state*, const char*, int, int, unsigned char*, int);
HIDDEN int res_nsearch(struct __res_state* state, const char* name, int of_class, int type, unsigned char* answer, int size);
int res_nsearch(struct __res_state* state, const char* name, int of_class, int type, unsigned char* answer, int size) {
    return __res_nsearch(state, name, of_class, type, answer, size);
}
