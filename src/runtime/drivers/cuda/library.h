// The CUDA driver as a table of functions, opened at run time: no program of ours links it. Seen by this folder alone.
#pragma once

#include <string>

#include "runtime/drivers/cuda/api.h"
#include "support/result.h"

namespace xyntra::cuda {

struct Library {  // cuName is the member Name
#define FUNCTION(name, symbol, ...) CUresult (*name)(__VA_ARGS__) = nullptr;
#include "runtime/drivers/cuda/api.def"
};

// Opened by the first call and kept until the process ends. Its failure is an answer for good too.
Result<const Library*> library();
// The same where something of it exists already.
const Library& opened_library();

std::string words_of(
    CUresult result);  // "an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)"
std::string version_text(int version);  // 13000: "13.0"

}  // namespace xyntra::cuda
