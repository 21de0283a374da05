// The functions that aten.def names, each of which makes the operations of one call.
#pragma once

#include "frontends/aten/call.h"

namespace xyntra::aten {

#define ATEN(schema, function, detail) Item function(Call& c);
#include "frontends/aten/aten.def"
#undef ATEN

}  // namespace xyntra::aten
