// What is known of a PTX kernel beside its text, as bytes: for a cache that keeps its machine code.
#pragma once

#include "runtime/ptx_kernel.h"
#include "support/files/byte_stream.h"

namespace xyntra {

void write_ptx_kernel(ByteWriter& writer, const PtxKernel& kernel);
Result<PtxKernel> read_ptx_kernel(ByteReader& reader);  // without a text

}  // namespace xyntra
