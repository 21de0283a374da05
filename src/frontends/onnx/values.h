// Types and attributes of the file → types and attributes of the graph, and the names of symbolic sizes.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "frontends/onnx/protobuf/wire.h"
#include "frontends/onnx/tensor.h"
#include "ir/graph.h"

namespace xyntra::onnx {

// Symbols for sizes. Exporters put any text into dim_param ("batch size", "s0 + 1"), so each text gets an
// identifier of its own: itself where it is one, else with '_' for the rest and a number where that clashes.
class SymbolNames {
 public:
  // All of a model's dim_params, in order of appearance, before the first fresh name is made.
  void declare(std::string_view text);

  Dim named(std::string_view text);
  Dim fresh(std::string_view stem);  // a size the model does not name: "x_0" for axis 0 of x

 private:
  std::string unused(std::string_view text);
  std::map<std::string, std::string, std::less<>> declared_;
  std::set<std::string, std::less<>> used_;
  std::size_t clashes_ = 0;
};

// `stem` names unnamed sizes. Fresh: sizes get symbols of their own even where the file names them, because
// in the body of a loop a name does not mean one number.
enum class SizeNames : std::uint8_t { AsDeclared, Fresh };
Result<Type> import_type(const TypeProto& proto, SymbolNames& symbols, std::string_view stem,
                         SizeNames size_names = SizeNames::AsDeclared);

// BadModel when the file declares another dtype, or no tensor where there is one.
Status check_declared(const Type& inferred, const TypeProto& declared, std::string_view value_name);
// What is wrong with a declared shape that cannot be the inferred one. Symbolic sizes never clash.
std::optional<std::string> wrong_shape(const Type& inferred, const TypeProto& declared,
                                       std::string_view value_name);

// Everything but graphs, which need names around them.
Result<xyntra::Attribute> import_attribute(const Attribute& attribute, TensorReader& tensors);

}  // namespace xyntra::onnx
