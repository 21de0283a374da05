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

}  // namespace xyntra
