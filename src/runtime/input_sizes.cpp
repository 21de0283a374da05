#include "runtime/input_sizes.h"

namespace xyntra {

Status learn_sizes(const LaunchProgram& program, std::span<const Datum> inputs, SymbolBindings& sizes) {
  if (inputs.size() != program.inputs.size()) {
    return usage_error("the model has " + std::to_string(program.inputs.size()) + " inputs, " +
                       std::to_string(inputs.size()) + " were given");
  }
  auto for_each_size = [&](auto visit) -> Status {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const ProgramValue& value = program.values[program.inputs[i]];
      if (inputs[i].kind != Datum::Kind::Tensor || !value.has_shape) continue;
      const Dims& dims = inputs[i].tensor.dims();
      bool same = dims.size() == value.shape.size() && inputs[i].tensor.dtype() == value.dtype;
      for (std::size_t d = 0; same && d < dims.size(); ++d) same = visit(value.shape[d], dims[d]);
      if (!same) {
        return usage_error("input '" + value.name + "' is " + std::string(name_of(value.dtype)) +
                           to_string(value.shape) + ", given " +
                           std::string(name_of(inputs[i].tensor.dtype())) + to_string(shape_of(dims)));
      }
    }
    return {};
  };
  XYNTRA_CHECK_OK(for_each_size([&sizes](const Dim& dim, std::int64_t size) {
    return !dim.is_symbol() || sizes.try_emplace(dim.to_string(), size).first->second == size;
  }));
  XYNTRA_CHECK_OK(for_each_size([&sizes](const Dim& dim, std::int64_t size) {
    Dim bound = dim.substitute(sizes);
    return !bound.is_constant() || bound.constant() == size;
  }));
  for (const auto& [name, range] : program.ranges) {
    auto known = sizes.find(name);
    if (known == sizes.end() || (known->second >= range.low && known->second <= range.high)) continue;
    return usage_error("the size '" + name + "' is " + std::to_string(known->second) +
                       "; the model was compiled for " + std::to_string(range.low) + " to " +
                       std::to_string(range.high));
  }
  return {};
}

}  // namespace xyntra
