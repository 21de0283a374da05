#include "compiler/nominal_sizes.h"

#include <algorithm>

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

}  // namespace

Result<SymbolBindings> nominal_sizes(const Graph& graph, std::span<const std::string> texts,
                                     std::string_view where) {
  const std::vector<std::string> symbols = symbols_that_inputs_name(graph);
  SymbolBindings sizes;
  for (const std::string& text : texts) {
    const std::string place = std::string(where) + text + ": ";
    const std::size_t at = text.rfind('=');
    const auto value =
        at == std::string::npos ? std::nullopt : parse_i64(std::string_view(text).substr(at + 1));
    if (!value || *value < 0) return usage_error(place + "expected NAME=SIZE, such as seq=128");
    const std::string name = text.substr(0, at);
    if (std::ranges::find(symbols, name) == symbols.end()) {
      return usage_error(place + "the inputs have no size of this name; they have " +
                         (symbols.empty() ? "only fixed ones" : joined(symbols, ", ")));
    }
    if (!sizes.emplace(name, *value).second) return usage_error(place + "the size was given already");
  }
  return sizes;
}

Result<SymbolRanges> take_ranges(const Graph& graph, std::vector<std::string>& texts,
                                 std::string_view where) {
  const std::vector<std::string> symbols = symbols_that_inputs_name(graph);
  SymbolRanges ranges;
  std::vector<std::string> others;
  for (const std::string& text : texts) {
    const std::size_t at = text.rfind('='), dots = text.rfind("..");
    if (at == std::string::npos || dots == std::string::npos || dots < at) {
      others.push_back(text);
      continue;
    }
    const std::string place = std::string(where) + text + ": ";
    const std::string name = text.substr(0, at);
    const auto low = parse_i64(std::string_view(text).substr(at + 1, dots - at - 1));
    const auto high = parse_i64(std::string_view(text).substr(dots + 2));
    if (!low || !high || *low < 0 || *high < *low)
      return usage_error(place + "expected NAME=LOW..HIGH, such as seq=1..512");
    if (std::ranges::find(symbols, name) == symbols.end()) {
      return usage_error(place + "the inputs have no size of this name; they have " +
                         (symbols.empty() ? "only fixed ones" : joined(symbols, ", ")));
    }
    if (!ranges.emplace(name, Range{*low, *high}).second)
      return usage_error(place + "the range was given already");
  }
  texts = std::move(others);
  return ranges;
}

}  // namespace xyntra
