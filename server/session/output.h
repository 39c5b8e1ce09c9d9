// What the driver prints, as far as a session has to know of it.
#pragma once

namespace warpline::server {

class Output {
public:
    virtual ~Output() = default;
    /// Hands on everything that has been written so far: the client has it before what is sent to it from now on. @blocks as
    /// sending does @thread any
    virtual void drain() = 0;
};

}  // namespace warpline::server
