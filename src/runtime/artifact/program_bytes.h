// Programs as bytes: what an artifact holds of them. Constants are named by where they lie among its weights, functions by
// their symbols in its code.
#pragma once

#include "runtime/program.h"
#include "support/files/byte_stream.h"

namespace xyntra {

// A constant among the weights.
struct StoredConstant {
  DType dtype = DType::F32;
  Dims dims;
  std::uint64_t offset = 0;
};
inline constexpr std::uint64_t kConstantAlignment = 64;  // of an offset: what kernels may take for granted

void write_dim(ByteWriter& writer, const Dim& dim);
Result<Dim> read_dim(ByteReader& reader);
void write_dims(ByteWriter& writer, const std::vector<Dim>& dims);
Result<std::vector<Dim>> read_dims(ByteReader& reader);

// `constants` stand for program.constants, in order.
std::vector<std::byte> to_bytes(const LaunchProgram& program, std::span<const StoredConstant> constants);

// The program without its functions; constants borrow `weights`, which `owner` keeps alive. Everything that running it
// relies on is checked: numbers of values, slots, kernels and host calls are in range, constants lie within the weights, views
// end in memory, every value has a place before it is read.
struct StoredProgram {
  LaunchProgram program;
  std::size_t host_calls = 0;
};
Result<StoredProgram> program_from(std::span<const std::byte> bytes, std::span<const std::byte> weights,
                                   const std::shared_ptr<const void>& owner);
// The same with constants that the caller has, in order. BadModel error where one is of another type.
Result<StoredProgram> program_from(std::span<const std::byte> bytes, std::vector<Tensor> constants);

}  // namespace xyntra
