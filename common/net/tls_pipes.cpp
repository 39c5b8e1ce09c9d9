// The way between OpenSSL and our own buffers.
#include <openssl/bio.h>

#include <algorithm>

#include "common/net/tls_channel_state.h"

namespace warpline::net {

namespace {

int pipe_read(BIO* bio, char* data, size_t size, size_t* got) {
    auto* pipes = static_cast<Pipes*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    *got = std::min(size, pipes->in.size());
    if (*got == 0) {
        if (!pipes->in_ended) BIO_set_retry_read(bio);
        return 0;
    }
    std::memcpy(data, pipes->in.data(), *got);
    pipes->in.begin += *got;
    return 1;
}

int pipe_write(BIO* bio, const char* data, size_t size, size_t* written) {
    auto* pipes = static_cast<Pipes*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    pipes->out.append(data, size);
    *written = size;
    return 1;
}

long pipe_ctrl(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

}  // namespace

BIO* new_pipe_bio(Pipes* pipes) {
    static BIO_METHOD* const method = [] {
        BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "warpline pipe");
        BIO_meth_set_read_ex(made, pipe_read);
        BIO_meth_set_write_ex(made, pipe_write);
        BIO_meth_set_ctrl(made, pipe_ctrl);
        return made;
    }();
    BIO* bio = BIO_new(method);
    if (!bio) return nullptr;
    BIO_set_data(bio, pipes);
    BIO_set_init(bio, 1);
    return bio;
}

}  // namespace warpline::net
