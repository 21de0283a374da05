// Where the values of a program are while it runs: in the arena, in memory of their own, in the caller's, among the weights.
// What is known of sizes is here, too: offsets of the arena follow from them.
#pragma once

#include <map>

#include "runtime/program.h"
#include "support/counts.h"
#include "support/limits/limits.h"
#include "types/tensor.h"

namespace xyntra {

class RunMemory {
 public:
  // The program must outlive it.
  RunMemory(const LaunchProgram& of, std::shared_ptr<Budget> of_run, std::shared_ptr<RunCounts> counted);

  const LaunchProgram& program;
  const std::shared_ptr<Budget> budget;  // may be null, as may counts
  const std::shared_ptr<RunCounts> counts;
  std::vector<std::byte*> pointers;  // by value; null: not known yet
  std::vector<Datum> data;  // by value: those with memory of their own

  // ---- sizes
  // Those of the inputs: offsets of the arena are made anew where they are others than the last time.
  Status bind(SymbolBindings sizes);
  const SymbolBindings& sizes() const { return bindings_; }  // host calls tell more of them
  std::uint64_t version() const { return version_; }  // of the sizes
  Result<Dims> dims_in(const Shape& shape) const;
  Result<Dims> dims_of(const ProgramValue& value) const { return dims_in(value.shape); }
  Result<std::int64_t> bytes_of(ProgramValueId id) const;  // with the room that its layout has

  // ---- memory
  std::int64_t arena_bytes() const { return arena_bytes_; }
  std::span<std::byte> arena() const;  // all that there is
  void forget_results();  // of the last run
  // Where a value is, or will be: memory for it is made on the way when there is none.
  Result<std::byte*> address(ProgramValueId id);
  // Memory of a result: that of the last run where the caller has let go of it, so that a program that runs again and
  // again does not ask the system for pages each time. A kernel writes every element, so old contents do not matter.
  Result<std::shared_ptr<std::byte>> result_block(ProgramValueId id, std::int64_t bytes);
  // The bytes of a value, which may have to be made first.
  Result<std::span<std::byte>> bytes_at(ProgramValueId id);
  // A value as a tensor that borrows its memory for the time of a call.
  Result<Datum> as_datum(ProgramValueId id);
  // Keeps the result of a host call and learns the sizes that its declared shape names. Gives back the bytes that were
  // written.
  Result<std::span<const std::byte>> keep(ProgramValueId id, Datum datum);
  Result<Tensor> copied(const Tensor& tensor) const;

 private:
  void learn(const Dim& dim, std::int64_t size);

  SymbolBindings bindings_, entry_bindings_;
  std::uint64_t version_ = 0;
  bool bound_ = false;
  std::vector<ProgramValueId> written_;  // by steps
  struct Block {
    std::shared_ptr<std::byte> memory;
    std::int64_t bytes = 0;
    std::unique_ptr<Charge> charge;
  };
  static Status allocate(Block& block, std::int64_t bytes, const std::shared_ptr<Budget>& budget,
                         const char* what);
  std::map<ProgramValueId, Block> blocks_;  // of results
  Block arena_{nullptr, -1, nullptr};
  std::int64_t arena_bytes_ = 0;
};

}  // namespace xyntra
