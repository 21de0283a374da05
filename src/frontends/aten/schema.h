// The schema of an ATen overload, read from the text in which torch writes it:
//
//   aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor
//   aten::select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)
//   aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontends/aten/program.h"
#include "support/result.h"

namespace xyntra::aten {

enum class ParameterKind : std::uint8_t {
  Tensor,
  Int,
  Float,
  Bool,
  Scalar,
  String,
  DType,
  Placement,
  Generator,
  Any
};

struct Parameter {
  std::string name;
  ParameterKind kind = ParameterKind::Any;
  bool is_list = false;
  bool elements_optional = false;  // Tensor?[]
  bool one_for_all = false;        // int[2]: a number stands for a list of it
  bool optional = false;           // None may be given
  bool keyword_only = false;
  bool has_default = false;
  Argument default_value;
};

struct Schema {
  std::string name;  // "aten::add.Tensor"
  std::vector<Parameter> parameters;
  struct Result {
    std::string name;  // "logsumexp"; empty where none is written
    bool is_list = false;
  };
  std::vector<Result> returns;

  const Parameter* find(std::string_view parameter) const;
};

Result<Schema> parse_schema(std::string_view text);

}  // namespace xyntra::aten
