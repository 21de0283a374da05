// The bundled model: one block of a transformer encoder, as exporters write it, with attention, layer
// normalisation and GELU in small operators, and symbolic batch and sequence sizes.
#pragma once

#include "ir/graph.h"

namespace xyntra::examples {

Module make_encoder();

}  // namespace xyntra::examples
