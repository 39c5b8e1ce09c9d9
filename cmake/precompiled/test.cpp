// Nothing: a target needs a source, and this one exists for its precompiled headers, which all tests use.
