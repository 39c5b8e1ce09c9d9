// Page-locked memory in forked children, which have it as natively: it is shared with their parent.
#pragma once

namespace warpline::client::inherited_pages {

/// What the device has of page-locked memory is brought, so that a child finds it, which cannot ask for it.
/// @blocks until it is there, or cannot be had @thread the one that forks
void bring() noexcept;

/// In the child: all of it can be read and written.
void open() noexcept;

}  // namespace warpline::client::inherited_pages
