// The Python that torch.jit.save writes in code/__torch__/….py, as trees: expressions, statements, functions, classes.
//
//   class Net(Module):                        ClassDef
//     bias : Final[bool] = True                 Field
//     def forward(self: __torch__.Net,          FunctionDef
//       x: Tensor) -> Tensor:                     Parameter
//       y, z, = torch.split(x, 2)               Statement::Assign, two targets
//       return (y)[0]                           Statement::Return of Expression::Subscript
//
// Types are expressions, too: `Optional[List[int]]` is a subscript of a name by a subscript of a name. Expressions and statements
// lie in vectors of their file and name one another by ids; names are views into the text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "support/ids.h"
#include "support/result.h"

namespace xyntra::torchscript {

using ExpressionId = Id<struct ExpressionTag>;
using StatementId = Id<struct StatementTag>;
using Block = std::vector<StatementId>;

struct Expression {
  enum class Kind : std::uint8_t {
    None,
    Bool,  // integer
    Integer,  // integer
    Real,  // real
    Text,  // string
    Name,  // name
    Attribute,  // operands[0] . name
    Subscript,  // operands[0] [ operands[1] ]
    Call,  // operands[0] ( operands[1], … ); names[i], where not empty, is the keyword of operands[1 + i]
    Tuple,  // operands
    List,  // operands
    Dict,  // operands: key, value, …
    Conditional,  // operands[1] if operands[0] else operands[2]
  };
  Kind kind = Kind::None;
  std::uint32_t line = 0;
  std::int64_t integer = 0;
  double real = 0;
  std::string_view name;
  std::string string;
  std::vector<ExpressionId> operands;
  std::vector<std::string_view> names;
};

struct Statement {
  enum class Kind : std::uint8_t {
    Assign,  // targets = value, or with unpacks: targets, = value; an annotation may stand between
    Expression,  // value
    If,  // if value: body else: otherwise
    While,  // while value: body
    For,  // for targets[0] in value: body
    With,  // with value as targets[0]?: body
    Return,  // return value?
    Pass,
  };
  Kind kind = Kind::Pass;
  bool unpacks = false;
  std::uint32_t line = 0;
  ExpressionId value;
  std::vector<ExpressionId> targets;
  Block body, otherwise;
};

struct Parameter {
  std::string_view name;
  ExpressionId type, initial;  // may be invalid
};

struct FunctionDef {
  std::string_view name;
  std::uint32_t line = 0;
  std::vector<Parameter> parameters;
  ExpressionId returns;
  Block body;
};

struct Field {
  std::string_view name;
  ExpressionId type, value;  // may be invalid
};

struct ClassDef {
  std::string_view name, base;  // base: "Module", "NamedTuple", "Enum", "Interface", or empty
  std::uint32_t line = 0;
  std::vector<Field> fields;  // without those that list names, such as __parameters__
  std::vector<FunctionDef> methods;

  const FunctionDef* method(std::string_view wanted) const;
  const Field* field(std::string_view wanted) const;
};

struct SourceFile {
  std::string path;  // in the archive: code/__torch__/torch/nn/modules/conv.py
  std::string text;
  std::vector<Expression> expressions;
  std::vector<Statement> statements;
  std::vector<ClassDef> classes;
  std::vector<FunctionDef> functions;

  const Expression& operator[](ExpressionId id) const { return expressions.at(id.index); }
  const Statement& operator[](StatementId id) const { return statements.at(id.index); }
  const ClassDef* class_named(std::string_view name) const;
  const FunctionDef* function_named(std::string_view name) const;
  std::string place(std::uint32_t line) const { return path + ":" + std::to_string(line); }
};

// BadModel error `code/__torch__/net.py:7: expected ')', found ','`; an Unsupported one for Python that torch does not write. Nesting is
// at most 64 deep. The file is not moved, for names are views into it.
Result<std::unique_ptr<const SourceFile>> parse_source(std::string path, std::string text);

}  // namespace xyntra::torchscript
