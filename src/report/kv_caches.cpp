#include "report/kv_caches.h"

#include <algorithm>

namespace xyntra {
namespace {

SymbolBindings sizes_of(const LaunchProgram& program, std::span<const Datum> inputs) {
  SymbolBindings sizes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ProgramValue& value = program.values[program.inputs[i]];
    if (!value.has_shape || inputs[i].kind != Datum::Kind::Tensor) continue;
    for (std::size_t d = 0; d < value.shape.size(); ++d) {
      if (value.shape[d].is_symbol())
        sizes.emplace(value.shape[d].to_string(), inputs[i].tensor.dims().at(d));
    }
  }
  return sizes;
}

}  // namespace

Result<KvCaches> KvCaches::of(const LaunchProgram& program, std::span<const Datum> inputs) {
  KvCaches made;
  const SymbolBindings sizes = sizes_of(program, inputs);
  for (const ProgramExtension& one : program.extensions) {
    const auto position =
        static_cast<std::size_t>(std::ranges::find(program.inputs, one.input) - program.inputs.begin());
    const Tensor& rows = inputs[position].tensor;
    XYNTRA_TRY(const std::int64_t all, program.values[one.output].shape[one.axis].evaluate(sizes));
    Dims dims = rows.dims();
    dims[one.axis] = all;
    XYNTRA_TRY(Tensor memory, Tensor::allocate(rows.dtype(), dims));
    copy_rows(rows, one.axis, {rows.bytes(), rows.dims()[one.axis]}, {memory.mutable_bytes(), all});
    made.donated_.push_back({position, one.axis, all, memory.mutable_bytes()});
    made.memory_.push_back(std::move(memory));
  }
  return made;
}

Result<std::vector<Datum>> KvCaches::run(RunContext& context, std::span<const Datum> inputs,
                                         std::vector<LaunchTime>* times) {
  auto results = context.run(inputs, times, {}, donated_);
  for (DonatedInput& one : donated_) one.unchanged = true;
  return results;
}

}  // namespace xyntra
