// Whole tensors cut and joined along an axis, for host ops.
#pragma once

#include "ops/host_context.h"

namespace xyntra {

// Elements [begin, begin + length) along an axis.
Result<Tensor> cut(const HostContext& c, const Tensor& x, std::size_t axis, std::int64_t begin,
                   std::int64_t length);
// The slice at `position`, without the axis.
Result<Tensor> slice_at(const HostContext& c, const Tensor& x, std::size_t axis, std::int64_t position);
// One behind the other along an existing axis; an error when dtypes or other sizes differ.
Result<Tensor> joined(const HostContext& c, std::span<const Tensor> parts, std::size_t axis);
// Behind one another along a new axis.
Result<Tensor> stacked(const HostContext& c, std::span<const Tensor> parts, std::size_t axis);
// Those positions along an axis, in that order.
Result<Tensor> picked(const HostContext& c, const Tensor& x, std::size_t axis,
                      std::span<const std::int64_t> positions);

// The only element of operand i; an error when there is not exactly one.
Result<std::int64_t> single_integer(const HostContext& c, std::size_t operand);
Result<double> single_number(const HostContext& c, std::size_t operand);

// An integer that orders as the element does. NaN is greater than everything and equal to itself.
std::int64_t ordered_key(const Tensor& x, std::int64_t index);

}  // namespace xyntra
