#include <gtest/gtest.h>

#include <cmath>

#include "frontends/torchscript/syntax/syntax.h"

namespace xyntra::torchscript {
namespace {

using EKind = Expression::Kind;
using SKind = Statement::Kind;

std::string error_of(std::string text) {
  const auto file = parse_source("code/net.py", std::move(text));
  return file ? "" : file.error().message;
}

// The expression of `def f(): return …`, as prefix notation.
std::string shown(const SourceFile& file, ExpressionId id) {
  const Expression& e = file[id];
  const auto list = [&](std::string_view head) {
    std::string text = "(" + std::string(head);
    for (const ExpressionId operand : e.operands) text += " " + shown(file, operand);
    return text + ")";
  };
  switch (e.kind) {
    case EKind::None: return "None";
    case EKind::Bool: return e.integer != 0 ? "True" : "False";
    case EKind::Integer: return std::to_string(e.integer);
    case EKind::Real: return std::to_string(e.real);
    case EKind::Text: return "'" + e.string + "'";
    case EKind::Name: return std::string(e.name);
    case EKind::Attribute: return list("." + std::string(e.name));
    case EKind::Subscript: return list("[]");
    case EKind::Call: return list("call");
    case EKind::Tuple: return list("tuple");
    case EKind::List: return list("list");
    case EKind::Dict: return list("dict");
    case EKind::Conditional: return list("if");
  }
  return "?";
}

std::string expression(const std::string& text) {
  const auto file = parse_source("net.py", "def f():\n  return " + text + "\n");
  if (!file) return file.error().message;
  return shown(**file, (**file)[(*file)->functions[0].body[0]].value);
}

TEST(TorchScriptSyntax, ReadsExpressions) {
  EXPECT_EQ(expression("torch.add(x, -1, alpha=2)"), "(call (.add torch) x -1 2)");
  EXPECT_EQ(expression("(self).forward(x, )"), "(call (.forward self) x)");
  EXPECT_EQ(expression("(torch.size(x))[-1]"), "([] (call (.size torch) x) -1)");
  EXPECT_EQ(expression("annotate(Dict[str, Tensor], {\"a\": (x,), \"b\": ()})"),
            "(call annotate ([] Dict (tuple str Tensor)) (dict 'a' (tuple x) 'b' (tuple)))");
  EXPECT_EQ(expression("a if b else c if d else e"), "(if b a (if d c e))");
  EXPECT_EQ(expression("[1., 1e-05, .5, None, True,\n    CONSTANTS.c0]"),
            "(list 1.000000 0.000010 0.500000 None True (.c0 CONSTANTS))");
  EXPECT_EQ(expression("-9223372036854775808"), "-9223372036854775808");
  EXPECT_EQ(expression("[-inf, nan]"), "(list -inf nan)");
  EXPECT_EQ(expression("\"a\\n\\\"\\101\""), "'a\n\"A'");
  EXPECT_EQ(expression("x[0].tolist()"), "(call (.tolist ([] x 0)))");
  EXPECT_EQ(expression("a, b"), "(tuple a b)");
}

TEST(TorchScriptSyntax, ReadsClassesAndStatements) {
  const auto parsed = parse_source("net.py", R"(op_version_set = 1
class Net(Module):
  __parameters__ = ["weight", ]
  weight : Tensor
  n : Final[int] = 3
  # a comment
  def forward(self: __torch__.Net,
    x: Tensor,
    k: int=3) -> Tuple[Tensor, int]:
    a, b, = torch.split(x, 2)
    c : Optional[int] = None
    self.n = k
    while torch.lt(k, 3):
      pass
    for i in range(3):
      if a:
        y = a
      elif b:
        y = b
      else:
        y = x

    with c as d:
      torch.warn("x")
    return (y, 1)
def helper() -> NoneType:
  return None
)");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const SourceFile& file = **parsed;
  const ClassDef* net = file.class_named("Net");
  ASSERT_NE(net, nullptr);
  EXPECT_EQ(net->base, "Module");
  EXPECT_EQ(net->fields.size(), 2U);
  const FunctionDef* forward = net->method("forward");
  ASSERT_NE(forward, nullptr);
  EXPECT_EQ(forward->parameters.size(), 3U);
  EXPECT_EQ(file[forward->parameters[2].initial].integer, 3);
  std::vector<SKind> kinds;
  for (const StatementId id : forward->body) kinds.push_back(file[id].kind);
  using enum SKind;
  EXPECT_EQ(kinds, (std::vector{Assign, Assign, Assign, While, For, With, Return}));
  EXPECT_TRUE(file[forward->body[0]].unpacks);
  EXPECT_EQ(file[forward->body[4]].line, 15U);
  const Statement& branch = file[file[forward->body[4]].body[0]];
  ASSERT_EQ(branch.otherwise.size(), 1U);
  EXPECT_EQ(file[branch.otherwise[0]].kind, If);
  EXPECT_NE(file.function_named("helper"), nullptr);
}

TEST(TorchScriptSyntax, NamesTheLineOfWhatIsWrong) {
  EXPECT_EQ(error_of("x = 3\n"), "code/net.py:1: expected a class or a function, found 'x'");
  EXPECT_EQ(error_of("def f():\n  import os\n"),
            "code/net.py:2: 'import' is none of the Python that torch.jit.save writes");
  EXPECT_EQ(error_of("def f():\n  return lambda\n"),
            "code/net.py:2: 'lambda' is none of the Python that torch.jit.save writes");
  EXPECT_EQ(error_of("def f():\n  return (1\n"), "code/net.py:3: a bracket is not closed");
  EXPECT_EQ(error_of("def f():\n  return 1)\n"), "code/net.py:2: a bracket too many is closed");
  EXPECT_EQ(error_of("def f():\n  return \"a\n"), "code/net.py:2: a string that is not closed");
  EXPECT_EQ(error_of("def f():\n    pass\n  pass\n"), "code/net.py:3: indented unlike any line before");
  EXPECT_EQ(error_of("def f():\nreturn 1\n"), "code/net.py:2: expected an indented block, found 'return'");
  EXPECT_EQ(error_of("def f():\n  return 1 + 2\n"), "code/net.py:2: unexpected character '+'");
  EXPECT_EQ(error_of("def f():\n\treturn 1\n"), "code/net.py:2: unexpected character '\\t'");
  EXPECT_EQ(error_of("def f():\n  return 9223372036854775808\n"),
            "code/net.py:2: an integer of more than 64 bits");
  EXPECT_EQ(error_of("def f():\n  return 1j\n"), "code/net.py:2: a complex number");
  EXPECT_EQ(error_of("def f():\n  f(x) = 1\n"),
            "code/net.py:2: an assignment to something that is neither a name nor an attribute");
  EXPECT_EQ(error_of("def f():\n  pass\ndef f():\n  pass\n"), "code/net.py:3: function 'f' is defined twice");
  EXPECT_EQ(error_of("def f(x, x):\n  pass\n"), "code/net.py:1: parameter 'x' is there twice");
}

TEST(TorchScriptSyntax, BoundsNesting) {
  const auto nested = [](int depth) {
    std::string text = "def f():\n  return x";
    for (int i = 0; i < depth; ++i) text += " if c else x";
    return text + "\n";
  };
  EXPECT_EQ(error_of(nested(60)), "");
  EXPECT_EQ(error_of(nested(70)), "code/net.py:2: nested more than 64 deep");
  EXPECT_EQ(error_of("def f():\n  return " + std::string(100'000, '(')),
            "code/net.py:2: nested more than 64 deep");
  std::string blocks = "def f():\n";
  for (int i = 0; i < 100; ++i) blocks += std::string(static_cast<std::size_t>(i) + 1, ' ') + "if x:\n";
  EXPECT_NE(error_of(blocks).find("nested more than 64 deep"), std::string::npos);
  std::string chain = "def f():\n  if a:\n    pass\n";
  for (int i = 0; i < 1000; ++i) chain += "  elif a:\n    pass\n";
  EXPECT_NE(error_of(chain).find("nested more than 64 deep"), std::string::npos);
}

}  // namespace
}  // namespace xyntra::torchscript
