# What a program says of its session to whoever tells the server of its death (docs/session.md, End): on one machine, and never
# over the network. The rules for changes are those of envelope.capnp.
@0xb3e19c5d7720f84a;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("warpline::wire");

struct SessionReport {
  session @0 :Data;               # 16 bytes
  sessionKey @1 :Data;            # 32 bytes
  server @2 :Text;                # host:port, or host[address]:port
  ca @3 :Text;                    # files, with absolute paths
  certificate @4 :Text;
  key @5 :Text;
  graceMs @6 :UInt32;             # how long the server may keep the session
  finished @7 :Bool;              # the session has ended in peace: nothing is left to be told
}
