// What people say of symbolic sizes: "seq=128", to count costs with and to make inputs of; "seq=1..512", the sizes that may
// be run; "seq=128..128", which fixes a size.
#pragma once

#include <span>

#include "ir/graph.h"

namespace xyntra {

struct DeclaredSizes {
  SymbolBindings sizes;
  SymbolRanges ranges;
};

// Usage error, beginning with `where`, for what has another form, for names the inputs do not have, for a second size or
// range of one, and for a size outside of its range.
Result<DeclaredSizes> declared_sizes(const Graph& graph, std::span<const std::string> texts,
                                     std::string_view where);

// The model with these ranges declared, within those that it has already. A size that is fixed is one no more (assume.h), so
// it is taken out of `declared`, too.
Result<Module> with_declared(Module module, DeclaredSizes& declared, const Budget* budget);
// The same, but fixed sizes stay ranges, for what has no graph to compile: an artifact.
Status declare_ranges(Module& module, const DeclaredSizes& declared);

// The sizes that people left open, one rule for all that plan, run or measure: one element in a batch, kNominalSize of
// everything else, and what other sizes make of one that must be equal to them (assume.h), all within the ranges. A size
// that something is taken off, such as a convolution's padding, is no batch.
Result<SymbolBindings> with_default_sizes(const Graph& graph, const SymbolRanges& ranges,
                                          SymbolBindings given, const Budget* budget);
// The same where sizes that must be equal are one already.
SymbolBindings with_nominal_sizes(const Graph& graph, SymbolBindings given);

// NAME=SIZE alone.
Result<std::pair<std::string, std::int64_t>> parse_size(const std::string& text, std::string_view where);
// Usage error for a size outside of a range.
Status check_range(const std::string& name, std::int64_t size, const Range& range);

}  // namespace xyntra
