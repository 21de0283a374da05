#include "passes/declared_sizes.h"

#include <algorithm>
#include <map>

#include "passes/assume.h"
#include "schedule/choose.h"
#include "support/text/text.h"
#include "types/search_sizes.h"

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

// Those of windows and what they lie in fit one another, where that needs no size that was asked for to be another.
SymbolBindings with_possible_sizes(const Graph& graph, SymbolBindings given, const SymbolBindings& asked) {
  std::map<std::string, Dim> open;  // each once
  bool possible = true;
  for (std::size_t v = 0; v < graph.value_count(); ++v) {
    const Type& type = graph.value(ValueId(v)).type;
    if (!type.is_tensor() || !type.shape) continue;
    for (const Dim& dim : *type.shape) {
      if (dim.is_constant() || dim.is_symbol()) continue;
      const auto size = dim.evaluate(given);
      possible = possible && (!size || *size >= 0);
      open.emplace(dim.to_string(), dim);
    }
  }
  if (possible) return given;
  std::vector<Dim> sizes;
  for (const auto& [text, dim] : open) sizes.push_back(dim);
  auto found = search_sizes(sizes, INT64_MAX, given, asked);
  return found ? std::move(*found) : given;
}

}  // namespace

SymbolBindings with_nominal_sizes(const Graph& graph, SymbolBindings given) {
  const SymbolBindings asked = given;
  for (ValueId input : graph.inputs) {
    const Type& type = graph.value(input).type;
    if (!type.is_tensor() || !type.shape) continue;
    for (std::size_t d = 0; d < type.shape->size(); ++d) {
      const Dim& dim = (*type.shape)[d];
      const bool is_batch = d == 0 && type.shape->size() > 1;
      if (dim.is_symbol()) given.try_emplace(dim.to_string(), is_batch ? 1 : kNominalSize);
    }
  }
  for (std::size_t v = 0; v < graph.value_count(); ++v) {
    const Type& type = graph.value(ValueId(v)).type;
    if (!type.is_tensor() || !type.shape) continue;
    for (const Dim& dim : *type.shape) {
      auto size = dim.evaluate(given);
      if (!size || *size >= 0) continue;
      std::vector<std::string> symbols;
      dim.collect_symbols(symbols);
      for (const std::string& symbol : symbols) {
        if (!asked.count(symbol)) given[symbol] = kNominalSize;
      }
    }
  }
  return with_possible_sizes(graph, std::move(given), asked);
}

Result<SymbolBindings> with_default_sizes(const Graph& graph, const SymbolRanges& ranges,
                                          SymbolBindings given, const Budget* budget) {
  const SymbolBindings asked = given;
  const std::vector<std::string> symbols = symbols_that_inputs_name(graph);
  const auto open =
      std::ranges::count_if(symbols, [&](const std::string& one) { return !asked.contains(one); });
  if (open == 0) return given;
  const auto settle = [&](const std::string& symbol, std::int64_t size) {
    if (asked.contains(symbol)) return;
    const auto range = ranges.find(symbol);
    given[symbol] = range == ranges.end() ? size : std::clamp(size, range->second.low, range->second.high);
  };
  std::vector<Assumption> equal;
  // A graph whose types do not fit with equal sizes has none that must be.
  const auto joined_sizes =
      symbols.size() > 1 ? with_equal_sizes(graph, equal, budget) : Result<Graph>(graph);
  if (!joined_sizes) equal.clear();
  for (const auto& [symbol, size] : with_nominal_sizes(joined_sizes ? *joined_sizes : graph, asked))
    settle(symbol, size);
  for (const Assumption& one : equal) {
    if (const auto size = one.equals.evaluate(given)) settle(one.symbol, *size);
  }
  for (const std::string& symbol : symbols) {
    if (!given.contains(symbol)) settle(symbol, kNominalSize);
  }
  return given;
}

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
