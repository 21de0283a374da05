// A large constant that is read in two ways, such as an embedding that is also the last product's weight, can lie in
// memory in one way only. Each kind of reader gets its own, so that each can have it laid out as it likes.
#pragma once

#include "ir/graph.h"

namespace xyntra {

void separate_shared_constants(Graph& graph);

}  // namespace xyntra
