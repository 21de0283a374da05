#include "graphs/makers.h"

namespace xyntra::graphs {
namespace {

constexpr const char* kUnary[] = {"Relu",      "Neg",         "Abs",
                                  "Sqrt",      "Exp",         "Tanh",
                                  "Sigmoid",   "Erf",         "Reciprocal",
                                  "Log",       "Sin",         "Cos",
                                  "Atan",      "Sinh",        "Cosh",
                                  "Asinh",     "Sign",        "Ceil",
                                  "Floor",     "Round",       "LeakyRelu",
                                  "Elu",       "Selu",        "Celu",
                                  "HardSwish", "HardSigmoid", "Swish",
                                  "Mish",      "Gelu",        "Softplus",
                                  "Softsign",  "Shrink",      "ThresholdedRelu",
                                  "Identity"};
constexpr const char* kBinary[] = {"Add", "Mul", "Sub", "Div", "Add", "Mul", "Max", "Min", "Pow", "PRelu"};
constexpr const char* kIntegerBinary[] = {"Add", "Mul", "Sub",        "Div",       "Max",
                                          "Min", "Mod", "BitwiseAnd", "BitwiseOr", "BitwiseXor"};
constexpr const char* kCompare[] = {"Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual"};
constexpr const char* kLogic[] = {"And", "Or", "Xor"};
constexpr const char* kVariadic[] = {"Sum", "Mean", "Max", "Min"};
constexpr DType kCastTargets[] = {DType::F32, DType::F16, DType::BF16, DType::F64,
                                  DType::I32, DType::I64, DType::Bool};

void unary(GraphMaker& m) {
  ValueId x = m.any_float();
  const std::string op = m.decide.one_of(kUnary);
  Attributes attributes;
  if (op == "Gelu" && m.decide.chance(50)) attributes["approximate"] = std::string("tanh");
  if (op == "LeakyRelu") attributes["alpha"] = 0.25f;
  m.one(op, {x}, std::move(attributes));
}

void integer_unary(GraphMaker& m) {
  ValueId x = m.any_of(m.decide.chance(50) ? DType::I64 : DType::I32);
  constexpr const char* kOps[] = {"Abs", "Neg", "Sign", "BitwiseNot"};
  m.one(m.decide.one_of(kOps), {x});
}

void binary_of(GraphMaker& m, const std::string& op, ValueId a) {
  ValueId b = m.decide.chance(25) ? m.number(m.dtype(a), static_cast<double>(m.decide.between(-2, 3)))
                                  : m.beside(a, m.dtype(a));
  bool swapped = m.decide.chance(50) && op != "Pow" && op != "PRelu";
  m.one(op, swapped ? std::vector{b, a} : std::vector{a, b});
}

void binary(GraphMaker& m) { binary_of(m, m.decide.one_of(kBinary), m.any_float()); }

void integer_binary(GraphMaker& m) {
  binary_of(m, m.decide.one_of(kIntegerBinary), m.any_of(m.decide.chance(50) ? DType::I64 : DType::I32));
}

void float_modulus(GraphMaker& m) {
  ValueId a = m.any_float();
  m.one("Mod", {a, m.beside(a, m.dtype(a))}, {{"fmod", std::int64_t{1}}});
}

void compare(GraphMaker& m) {
  ValueId a = m.any();
  if (is_bool(m.dtype(a))) return;
  binary_of(m, m.decide.one_of(kCompare), a);
}

void logic(GraphMaker& m) {
  ValueId a = m.any_of(DType::Bool);
  if (!a.valid()) return;
  if (m.decide.chance(25)) {
    m.one("Not", {a});
  } else {
    m.one(m.decide.one_of(kLogic), {a, m.beside(a, DType::Bool)});
  }
}

void variadic(GraphMaker& m) {
  ValueId a = m.any_float();
  std::vector<ValueId> operands{a};
  for (std::int64_t i = m.decide.below(4); i > 0; --i) operands.push_back(m.beside(a, m.dtype(a)));
  m.one(m.decide.one_of(kVariadic), operands);
}

void where(GraphMaker& m) {
  ValueId condition = m.any_of(DType::Bool);
  if (!condition.valid()) return;
  DType dtype = m.some_dtype();
  ValueId x = m.beside(condition, dtype);
  m.one("Where", {condition, x, m.decide.chance(30) ? m.number(dtype, 1) : m.beside(x, dtype)});
}

void clip(GraphMaker& m) {
  ValueId x = m.any();
  DType dtype = m.dtype(x);
  if (is_bool(dtype)) return;
  ValueId low = m.decide.chance(70) ? m.number(dtype, -1) : ValueId();
  ValueId high = m.decide.chance(70) ? m.number(dtype, 1) : ValueId();
  m.add("Clip", {x, low, high});
}

void cast(GraphMaker& m) {
  ValueId x = m.any();
  m.one("Cast", {x}, {{"to", std::int64_t{onnx_code_of(m.decide.one_of(kCastTargets))}}});
}

void test_number(GraphMaker& m) { m.one(m.decide.chance(50) ? "IsNaN" : "IsInf", {m.any_float()}); }

void dropout(GraphMaker& m) {
  ValueId x = m.any_float();
  bool training = m.decide.chance(40);
  Attributes attributes{{"seed", m.decide.below(100)}};
  if (!training) {
    m.add("Dropout", {x}, std::move(attributes), 1);
    return;
  }
  m.add("Dropout", {x, m.number(DType::F32, 0.5), m.number(DType::Bool, 1)}, std::move(attributes),
        m.decide.chance(50) ? 2 : 1);
}

}  // namespace

std::vector<Maker> elementwise_makers() {
  return {{"binary", 16, binary},
          {"unary", 16, unary},
          {"integer binary", 4, integer_binary},
          {"integer unary", 1, integer_unary},
          {"float modulus", 1, float_modulus},
          {"compare", 3, compare},
          {"logic", 2, logic},
          {"variadic", 3, variadic},
          {"where", 4, where},
          {"clip", 3, clip},
          {"cast", 4, cast},
          {"is NaN", 1, test_number},
          {"dropout", 2, dropout}};
}

}  // namespace xyntra::graphs
