// A list of what is kept from the start.
#pragma once

#include <string>

#include "server/cache/upload_store.h"

namespace warpline::server {

/// Takes in what a list names, as if its tenant had uploaded it before. A line is `TENANT FILE`, for a file that a program
/// uploads as a whole, or `TENANT FILE OFFSET BYTES`, for a part of it that is uploaded by itself, such as a tensor. Tabs
/// separate fields (names may have spaces); empty lines and those that begin with # count for nothing. What cannot be read
/// costs a line in the log.
///
/// @param path  empty: no list @blocks until all of it is read
void warm(UploadStore& store, const std::string& path);

}  // namespace warpline::server
