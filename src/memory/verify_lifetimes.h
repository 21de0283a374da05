// Checks lifetimes, views, in-place writes and offsets together, by running the launches on memory that holds, for
// every byte, which write put it there. It shares no code with the planners.
#pragma once

#include "memory/lifetimes.h"

namespace xyntra {

// An error unless, for these sizes, every read (and every output at the end) finds exactly the bytes that it would find
// if every buffer but a view had memory of its own, no launch writes memory that it reads, except by a pair it
// offers, and nothing writes constants, inputs that are not donated, or beyond its place.
Status verify_lifetimes(std::span<const BufferSpec> buffers, std::span<const LaunchSpec> launches,
                        const BufferLifetimes& lifetimes, const ArenaPlacement& placement,
                        const SymbolBindings& bindings);

}  // namespace xyntra
