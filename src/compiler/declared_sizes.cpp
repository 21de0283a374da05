#include "compiler/declared_sizes.h"

#include <algorithm>

#include "compiler/assume.h"
#include "support/text.h"

namespace xyntra {
namespace {

std::vector<std::string> symbols_that_inputs_name(const Graph& graph) {
  std::vector<std::string> symbols;
  for (ValueId input : graph.inputs) {
    const Type& type = graph.value(input).type;
    if (!type.shape) continue;
    for (const Dim& dim : *type.shape) dim.collect_symbols(symbols);
  }
  return symbols;
}

// Where the dots of NAME=LOW..HIGH are; npos in other texts. A name may hold '=' and dots.
std::size_t dots_of(const std::string& text) {
  const std::size_t at = text.rfind('='), dots = text.rfind("..");
  return at == std::string::npos || dots == std::string::npos || dots < at ? std::string::npos : dots;
}

Result<std::pair<std::string, Range>> parse_range(const std::string& text, std::string_view where) {
  const std::size_t at = text.rfind('='), dots = dots_of(text);
  const auto low = parse_i64(std::string_view(text).substr(at + 1, dots - at - 1));
  const auto high = parse_i64(std::string_view(text).substr(dots + 2));
  if (!low || !high || *low < 0 || *high < *low)
    return usage_error(std::string(where) + text + ": expected NAME=LOW..HIGH, such as seq=1..512");
  return std::pair(text.substr(0, at), Range{*low, *high});
}

std::string range_text(const Range& range) {
  return std::to_string(range.low) + ".." + std::to_string(range.high);
}

}  // namespace

Result<std::pair<std::string, std::int64_t>> parse_size(const std::string& text, std::string_view where) {
  const std::size_t at = text.rfind('=');
  const auto size = at == std::string::npos ? std::nullopt : parse_i64(std::string_view(text).substr(at + 1));
  if (!size || *size < 0)
    return usage_error(std::string(where) + text + ": expected NAME=SIZE, such as seq=128");
  return std::pair(text.substr(0, at), *size);
}

Status check_range(const std::string& name, std::int64_t size, const Range& range) {
  if (size >= range.low && size <= range.high) return {};
  return usage_error("the size '" + name + "' is " + std::to_string(size) + ", outside of its range " +
                     range_text(range));
}

Result<DeclaredSizes> declared_sizes(const Graph& graph, std::span<const std::string> texts,
                                     std::string_view where) {
  const std::vector<std::string> symbols = symbols_that_inputs_name(graph);
  DeclaredSizes declared;
  for (const std::string& text : texts) {
    const std::string place = std::string(where) + text + ": ";
    auto take = [&](auto& taken, auto one, const char* what) -> Status {
      if (std::ranges::find(symbols, one.first) == symbols.end()) {
        return usage_error(place + "the inputs have no size of this name; they have " +
                           (symbols.empty() ? "only fixed ones" : joined(symbols, ", ")));
      }
      if (taken.insert(std::move(one)).second) return {};
      return usage_error(place + "the " + what + " was given already");
    };
    if (dots_of(text) == std::string::npos) {
      XYNTRA_TRY(auto size, parse_size(text, where));
      XYNTRA_CHECK_OK(take(declared.sizes, std::move(size), "size"));
    } else {
      XYNTRA_TRY(auto range, parse_range(text, where));
      XYNTRA_CHECK_OK(take(declared.ranges, std::move(range), "range"));
    }
  }
  for (const auto& [name, size] : declared.sizes) {
    const auto range = declared.ranges.find(name);
    if (range != declared.ranges.end()) XYNTRA_CHECK_OK(check_range(name, size, range->second));
  }
  return declared;
}

Status declare_ranges(Module& module, const DeclaredSizes& declared) {
  for (const auto& [name, range] : declared.ranges) {
    Range& known = module.symbols.try_emplace(name, range).first->second;
    const Range both{std::max(known.low, range.low), std::min(known.high, range.high)};
    if (both.high < both.low) {
      return usage_error("the size '" + name + "' cannot be in " + range_text(range) + ": its range is " +
                         range_text(known));
    }
    known = both;
  }
  return {};
}

Result<Module> with_declared(Module module, DeclaredSizes& declared, const Budget* budget) {
  XYNTRA_CHECK_OK(declare_ranges(module, declared));
  const SymbolBindings fixed = take_fixed(declared.ranges);
  if (fixed.empty()) return module;
  for (const auto& [name, size] : fixed) {
    module.symbols.erase(name);
    declared.sizes.erase(name);
  }
  XYNTRA_TRY(module.graph, with_sizes(module.graph, fixed, budget));
  return module;
}

}  // namespace xyntra
