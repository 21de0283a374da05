#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "kir/kernel.h"
#include "kir/text_lexer.h"
#include "kir/text_words.h"
#include "support/text/text.h"

namespace xyntra::kir {
namespace {

using te::ExprOp;

constexpr int kMostNested = 200;  // statements or expressions inside one another

// A number without a dtype takes that of what it meets: x[i] + 1 adds 1.0 to a float.
struct Value {
  Expr expr;
  bool untyped = false;
  std::size_t offset = 0;
  double number = 0;  // of an untyped fraction, before it was rounded to a float
};

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text) {}

  Result<std::vector<Kernel>> kernels() {
    XYNTRA_CHECK_OK(lexer_.start());
    std::vector<Kernel> made;
    do {
      kernel_ = {};
      buffers_.clear();
      shared_.clear();
      sizes_.clear();
      XYNTRA_TRY(Kernel one, kernel());
      made.push_back(std::move(one));
    } while (current().is_word("kernel"));
    if (current().kind != Token::Kind::End) return error("expected the end of the text");
    return made;
  }

 private:
  Result<Kernel> kernel() {
    XYNTRA_CHECK_OK(word("kernel"));
    XYNTRA_TRY(kernel_.name, identifier("the kernel's name"));
    XYNTRA_CHECK_OK(symbol("("));
    while (!at(")")) {
      XYNTRA_CHECK_OK(buffer(Scope::Global));
      if (!at(")")) XYNTRA_CHECK_OK(symbol(","));
    }
    XYNTRA_CHECK_OK(symbol(")"));
    kernel_.approximate = current().is_word("approximate");
    if (kernel_.approximate) XYNTRA_CHECK_OK(lexer_.advance());
    XYNTRA_TRY(const bool budgeted, optional_word("registers"));
    if (budgeted) XYNTRA_CHECK_OK(register_budget());
    XYNTRA_CHECK_OK(symbol("{"));
    for (;;) {
      std::optional<Scope> scope = declared_scope();
      if (!scope) break;
      XYNTRA_CHECK_OK(lexer_.advance());
      XYNTRA_CHECK_OK(buffer(*scope));
    }
    XYNTRA_TRY(kernel_.body, statements_until_brace());
    return std::move(kernel_);
  }

  Status register_budget() {
    const std::string_view text = current().text;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), kernel_.registers);
    if (current().kind != Token::Kind::Number || problem != std::errc() || end != text.data() + text.size() ||
        kernel_.registers == 0)
      return error("expected a number of registers");
    return lexer_.advance();
  }

  // ---- tokens

  const Token& current() const { return lexer_.current(); }
  bool at(std::string_view spelling) const { return current().is_symbol(spelling); }
  tl::unexpected<Error> error(const std::string& message) const {
    return lexer_.error_at(current().offset, message);
  }

  Status symbol(std::string_view spelling) {
    if (!at(spelling)) return error("expected '" + std::string(spelling) + "'");
    return lexer_.advance();
  }
  Status word(std::string_view spelling) {
    if (!current().is_word(spelling)) return error("expected '" + std::string(spelling) + "'");
    return lexer_.advance();
  }
  Result<bool> optional_word(std::string_view spelling) {
    if (!current().is_word(spelling)) return false;
    XYNTRA_CHECK_OK(lexer_.advance());
    return true;
  }
  Result<std::string> identifier(const std::string& what) {
    if (current().kind != Token::Kind::Word || is_reserved(current().text)) return error("expected " + what);
    std::string name(current().text);
    XYNTRA_CHECK_OK(lexer_.advance());
    return name;
  }

  // ---- buffers

  std::optional<Scope> declared_scope() const {
    for (Scope scope : {Scope::Workspace, Scope::Shared, Scope::Register}) {
      if (current().is_word(name_of(scope))) return scope;
    }
    return std::nullopt;
  }

  Status buffer(Scope scope) {
    Buffer made;
    made.scope = scope;
    std::size_t offset = current().offset;
    XYNTRA_TRY(made.name, identifier("the name of a buffer"));
    if (buffers_.count(made.name) != 0) return lexer_.error_at(offset, "this name is taken");
    XYNTRA_CHECK_OK(symbol(":"));
    auto dtype = number_dtype_named(current().text);
    if (!dtype) return error("expected a dtype");
    made.dtype = *dtype;
    XYNTRA_CHECK_OK(lexer_.advance());
    XYNTRA_CHECK_OK(symbol("["));
    while (!at("]")) {
      XYNTRA_TRY(Dim dim, lexer_.size(",]"));
      made.shape.push_back(std::move(dim));
      if (!at("]")) XYNTRA_CHECK_OK(symbol(","));
    }
    XYNTRA_CHECK_OK(symbol("]"));
    if (scope == Scope::Global) {
      XYNTRA_CHECK_OK(optional_word("global"));
      XYNTRA_TRY(made.written, optional_word("out"));
    }
    XYNTRA_TRY(bool swizzled, optional_word("swizzle"));
    if (swizzled) {
      auto found = std::find(kSwizzles.begin(), kSwizzles.end(), current().text);
      if (found == kSwizzles.end() || found == kSwizzles.begin()) return error("expected 32, 64 or 128");
      made.swizzle = static_cast<Swizzle>(found - kSwizzles.begin());
      XYNTRA_CHECK_OK(lexer_.advance());
    }
    std::vector<std::string> names;
    for (const Dim& dim : made.shape) dim.collect_symbols(names);
    sizes_.insert(names.begin(), names.end());
    std::string name = made.name;
    buffers_.emplace(std::move(name), add_buffer(kernel_, std::move(made)));
    return {};
  }

  // ---- statements

  Result<Stmt> statements_until_brace() {
    if (++nested_ > kMostNested) return error("too many statements inside one another");
    std::vector<Stmt> statements;
    while (!at("}")) {
      if (current().kind == Token::Kind::End) return error("expected '}'");
      if (current().is_word("let")) {
        XYNTRA_CHECK_OK(let());
        continue;
      }
      std::uint32_t line = lexer_.line_of(current().offset);
      XYNTRA_TRY(Stmt statement, one_statement());
      if (statement->kind != StmtNode::Kind::Block) {
        StmtNode node = *statement;
        node.line = line;
        statement = Stmt::of(std::move(node));
      }
      statements.push_back(std::move(statement));
    }
    XYNTRA_CHECK_OK(symbol("}"));
    --nested_;
    return Stmt::block(std::move(statements));
  }

  Result<Stmt> one_statement() {
    for (LoopKind kind : {LoopKind::Serial, LoopKind::Unrolled, LoopKind::Vector, LoopKind::Grid,
                          LoopKind::Cluster, LoopKind::Thread}) {
      if (current().is_word(name_of(kind))) return loop(kind);
    }
    if (current().is_word("if")) return branch();
    if (current().is_word("check")) return check();
    Expr stream;
    if (current().is_word("stream")) {
      XYNTRA_CHECK_OK(lexer_.advance());
      XYNTRA_TRY(stream, typed(DType::Bool));
      XYNTRA_CHECK_OK(symbol(":"));
    }
    if (auto intrinsic = named_intrinsic(current().text)) return call(*intrinsic);
    XYNTRA_TRY(BufferId target, named_buffer());
    XYNTRA_TRY(auto index, index_list());
    XYNTRA_CHECK_OK(symbol("="));
    XYNTRA_TRY(Expr value, typed(kernel_.buffer(target).dtype));
    return Stmt::store(target, std::move(index), std::move(value), std::move(stream));
  }

  static std::optional<Intrinsic> named_intrinsic(std::string_view name) {
    for (std::size_t i = 0; i < kIntrinsicCount; ++i) {
      if (name == spelling_of(static_cast<Intrinsic>(i))) return static_cast<Intrinsic>(i);
    }
    return std::nullopt;
  }

  Result<Stmt> loop(LoopKind kind) {
    XYNTRA_CHECK_OK(lexer_.advance());
    std::size_t offset = current().offset;
    XYNTRA_TRY(std::string name, identifier("the loop's variable"));
    if (is_function(name)) return lexer_.error_at(offset, "this is the name of a function");
    if (variables_.count(name) != 0 || buffers_.count(name) != 0 || sizes_.count(name) != 0) {
      return lexer_.error_at(offset, "this name is taken");
    }
    XYNTRA_CHECK_OK(symbol("<"));
    XYNTRA_TRY(Dim extent, lexer_.size("{"));
    VarId var = add_variable(kernel_, name, extent);
    variables_.emplace(name, var);
    XYNTRA_CHECK_OK(symbol("{"));
    XYNTRA_TRY(Stmt body, statements_until_brace());
    variables_.erase(name);
    return Stmt::loop(kind, var, std::move(body));
  }

  Result<Stmt> branch() {
    XYNTRA_CHECK_OK(lexer_.advance());
    XYNTRA_TRY(Expr condition, typed(DType::Bool));
    XYNTRA_CHECK_OK(symbol("{"));
    XYNTRA_TRY(Stmt when_true, statements_until_brace());
    XYNTRA_TRY(bool otherwise, optional_word("else"));
    if (!otherwise) return Stmt::branch(std::move(condition), std::move(when_true));
    XYNTRA_CHECK_OK(symbol("{"));
    XYNTRA_TRY(Stmt when_false, statements_until_brace());
    return Stmt::branch(std::move(condition), std::move(when_true), std::move(when_false));
  }

  Result<Stmt> check() {
    XYNTRA_CHECK_OK(lexer_.advance());
    XYNTRA_TRY(BufferId buffer, named_buffer());
    XYNTRA_CHECK_OK(symbol("."));
    auto dimension = parse_u64(current().text);
    if (!dimension || *dimension >= kernel_.buffer(buffer).shape.size()) {
      return error("expected a dimension of the buffer");
    }
    XYNTRA_CHECK_OK(lexer_.advance());
    XYNTRA_CHECK_OK(symbol(":"));
    XYNTRA_TRY(Expr index, typed(DType::I64));
    return Stmt::check(buffer, static_cast<std::size_t>(*dimension), std::move(index));
  }

  Result<Stmt> call(Intrinsic intrinsic) {
    XYNTRA_CHECK_OK(lexer_.advance());
    XYNTRA_CHECK_OK(symbol("("));
    std::vector<Operand> operands;
    for (char kind : std::string_view(signature_of(intrinsic))) {
      if (!operands.empty()) XYNTRA_CHECK_OK(symbol(","));
      Operand operand;
      if (kind == 'p') {
        XYNTRA_TRY(operand.buffer, named_buffer());
        XYNTRA_TRY(operand.index, index_list());
      } else {
        XYNTRA_TRY(operand.value, typed(DType::I64));
      }
      operands.push_back(std::move(operand));
    }
    XYNTRA_CHECK_OK(symbol(")"));
    return Stmt::call(intrinsic, std::move(operands));
  }

  Status let() {
    XYNTRA_CHECK_OK(lexer_.advance());
    if (current().kind != Token::Kind::Shared) return error("expected a name such as %1");
    std::string name(current().text);
    if (shared_.count(name) != 0) return error("this name is taken");
    XYNTRA_CHECK_OK(lexer_.advance());
    XYNTRA_CHECK_OK(symbol("="));
    XYNTRA_TRY(Value value, expression());
    shared_.emplace(std::move(name), std::move(value.expr));
    return {};
  }

  Result<BufferId> named_buffer() {
    auto found = buffers_.find(std::string(current().text));
    if (current().kind != Token::Kind::Word || found == buffers_.end()) return error("expected a buffer");
    XYNTRA_CHECK_OK(lexer_.advance());
    return found->second;
  }

  Result<std::vector<Expr>> index_list() {
    std::vector<Expr> index;
    XYNTRA_CHECK_OK(symbol("["));
    while (!at("]")) {
      XYNTRA_TRY(Expr one, typed(DType::I64));
      index.push_back(std::move(one));
      if (!at("]")) XYNTRA_CHECK_OK(symbol(","));
    }
    XYNTRA_CHECK_OK(symbol("]"));
    return index;
  }

  // ---- expressions

  Result<Expr> typed(DType dtype) {
    XYNTRA_TRY(Value value, expression());
    XYNTRA_CHECK_OK(adapt(value, dtype));
    return std::move(value.expr);
  }

  Status adapt(Value& value, DType dtype) const {
    if (value.expr.dtype() == dtype) return {};
    bool whole = value.expr.dtype() == DType::I64;
    if (!value.untyped || dtype == DType::Bool || (!whole && !is_float(dtype))) {
      return lexer_.error_at(value.offset, "expected " + std::string(name_of(dtype)) + ", this is " +
                                               std::string(name_of(value.expr.dtype())));
    }
    if (!is_float(dtype)) {
      value.expr = Expr::integer(dtype, value.expr->int_value);
    } else {
      value.expr = Expr::floating(dtype, whole ? static_cast<double>(value.expr->int_value) : value.number);
    }
    value.untyped = false;
    return {};
  }

  // All of one dtype: that of the first that has one.
  Status unify(std::vector<Value>& values) const {
    const Value* model = nullptr;
    for (const Value& value : values) {
      bool better = model == nullptr || (model->untyped && !value.untyped) ||
                    (model->untyped && is_float(value.expr.dtype()) && !is_float(model->expr.dtype()));
      if (better) model = &value;
    }
    DType dtype = model->expr.dtype();
    for (Value& value : values) XYNTRA_CHECK_OK(adapt(value, dtype));
    return {};
  }

  static std::optional<ExprOp> infix(const Token& token) {
    if (token.kind != Token::Kind::Symbol) return std::nullopt;
    for (int i = 0; i <= static_cast<int>(ExprOp::Pow); ++i) {
      auto op = static_cast<ExprOp>(i);
      if (precedence_of(op) > 0 && token.text == te::spelling_of(op)) return op;
    }
    return std::nullopt;
  }

  Result<Value> expression(int weakest = 1) {
    if (++nested_ > kMostNested) return error("this expression is too deep");
    XYNTRA_TRY(Value left, unary());
    for (auto op = infix(current()); op && precedence_of(*op) >= weakest; op = infix(current())) {
      XYNTRA_CHECK_OK(lexer_.advance());
      XYNTRA_TRY(Value right, expression(precedence_of(*op) + 1));
      std::size_t offset = left.offset;
      std::vector<Value> operands{std::move(left), std::move(right)};
      XYNTRA_CHECK_OK(unify(operands));
      left = {Expr::make(*op, {operands[0].expr, operands[1].expr}), false, offset, 0};
    }
    --nested_;
    return left;
  }

  Result<Value> unary() {
    std::size_t offset = current().offset;
    if (at("-") || at("~")) {
      bool negates = at("-");
      XYNTRA_CHECK_OK(lexer_.advance());
      if (negates && is_literal()) return literal(true, offset);
      if (++nested_ > kMostNested) return error("this expression is too deep");
      XYNTRA_TRY(Value value, unary());
      --nested_;
      return Value{Expr::make(negates ? ExprOp::Neg : ExprOp::Not, {value.expr}), false, offset, 0};
    }
    return primary();
  }

  bool is_literal() const {
    auto begins = [this](std::string_view word) {
      std::string_view text = current().text;
      return text == word || (text.starts_with(word) && text.size() > word.size() &&
                              text[word.size()] == '_' && number_dtype_named(text.substr(word.size() + 1)));
    };
    return current().kind == Token::Kind::Number ||
           (current().kind == Token::Kind::Word && (begins("inf") || begins("nan")));
  }

  Result<Value> literal(bool negative, std::size_t offset) {
    std::string_view text = current().text;
    std::optional<DType> dtype;
    if (std::size_t cut = text.find('_'); cut != std::string_view::npos) {
      dtype = number_dtype_named(text.substr(cut + 1));
      if (!dtype || *dtype == DType::Bool) return error("expected a dtype after '_'");
      text = text.substr(0, cut);
    }
    std::string signed_text = (negative ? "-" : "") + std::string(text);
    bool whole = text.find_first_not_of("0123456789") == std::string_view::npos;
    Value value{{}, !dtype, offset, 0};
    if (whole && (!dtype || !is_float(*dtype))) {
      auto number = parse_i64(signed_text);
      if (!number && dtype == DType::U64) {
        if (auto large = parse_u64(signed_text)) number = static_cast<std::int64_t>(*large);
      }
      if (!number) return error("this number is too large");
      value.expr = Expr::integer(dtype.value_or(DType::I64), *number);
    } else {
      if (dtype && !is_float(*dtype)) return error("this is no whole number");
      std::optional<double> number = parse_f64(signed_text);
      if (text == "nan")
        number = std::copysign(std::numeric_limits<double>::quiet_NaN(), negative ? -1.0 : 1.0);
      if (text == "inf") number = negative ? -HUGE_VAL : HUGE_VAL;
      if (!number) return error("expected a number");
      value.number = *number;
      // Read as the nearest float, not as the float nearest to the nearest double.
      if (auto single = parse_f32(signed_text); single && dtype.value_or(DType::F32) == DType::F32) {
        number = static_cast<double>(*single);
      }
      value.expr = Expr::floating(dtype.value_or(DType::F32), *number);
    }
    XYNTRA_CHECK_OK(lexer_.advance());
    return value;
  }

  Result<Value> primary() {
    std::size_t offset = current().offset;
    if (is_literal()) return literal(false, offset);
    if (at("(")) {
      XYNTRA_CHECK_OK(lexer_.advance());
      XYNTRA_TRY(Value value, expression());
      XYNTRA_CHECK_OK(symbol(")"));
      return value;
    }
    if (current().kind == Token::Kind::Shared) {
      auto found = shared_.find(std::string(current().text));
      if (found == shared_.end()) return error("no let gives this name");
      XYNTRA_CHECK_OK(lexer_.advance());
      return Value{found->second, false, offset, 0};
    }
    if (current().kind != Token::Kind::Word) return error("expected an expression");
    std::string name(current().text);
    if (auto variable = variables_.find(name); variable != variables_.end()) {
      XYNTRA_CHECK_OK(lexer_.advance());
      return Value{Expr::variable(variable->second), false, offset, 0};
    }
    if (buffers_.count(name) != 0) {
      XYNTRA_TRY(BufferId buffer, named_buffer());
      if (is_function(name) && at("(")) {
        XYNTRA_TRY(Expr made, called(name, offset));
        return Value{std::move(made), false, offset, 0};
      }
      XYNTRA_TRY(auto index, index_list());
      return Value{Expr::load(buffer, kernel_.buffer(buffer).dtype, std::move(index)), false, offset, 0};
    }
    if (sizes_.count(name) != 0 && !is_reserved(name) && !is_function(name)) {
      XYNTRA_CHECK_OK(lexer_.advance());
      return Value{Expr::size(Dim::symbol(name)), false, offset, 0};
    }
    if (name == "true" || name == "false") {
      XYNTRA_CHECK_OK(lexer_.advance());
      return Value{Expr::boolean(name == "true"), false, offset, 0};
    }
    if (!is_reserved(name) && !is_function(name)) return error("nothing is called '" + name + "' here");
    XYNTRA_CHECK_OK(lexer_.advance());
    XYNTRA_TRY(Expr made, called(name, offset));
    return Value{std::move(made), false, offset, 0};
  }

  Result<Expr> called(const std::string& name, std::size_t offset) {
    if (name == "size") {
      if (!at("(")) return error("expected '('");
      XYNTRA_CHECK_OK(lexer_.advance());
      XYNTRA_TRY(Dim dim, lexer_.size(")"));
      XYNTRA_CHECK_OK(symbol(")"));
      return Expr::size(dim);
    }
    XYNTRA_CHECK_OK(symbol("("));
    if (name == "load_or") return load_or();
    if (name.starts_with("bits_")) return bitcast(*number_dtype_named(name.substr(5)), offset);
    if (auto dtype = number_dtype_named(name)) return converted(*dtype);
    for (int i = 0; i <= static_cast<int>(ExprOp::Pow); ++i) {
      auto op = static_cast<ExprOp>(i);
      if (is_function(op) && name == te::spelling_of(op)) return function_of(op, offset);
    }
    return lexer_.error_at(offset, "expected an expression");
  }

  Result<Expr> load_or() {
    XYNTRA_TRY(BufferId buffer, named_buffer());
    XYNTRA_TRY(auto index, index_list());
    XYNTRA_CHECK_OK(symbol(","));
    XYNTRA_TRY(Expr fallback, typed(kernel_.buffer(buffer).dtype));
    XYNTRA_CHECK_OK(symbol(")"));
    return Expr::load_or(std::move(fallback), buffer, std::move(index));
  }

  Result<Expr> bitcast(DType dtype, std::size_t offset) {
    XYNTRA_TRY(Value value, expression());
    XYNTRA_CHECK_OK(symbol(")"));
    if (bits_of(dtype) != bits_of(value.expr.dtype())) return lexer_.error_at(offset, "the widths differ");
    return te::bitcast(dtype, std::move(value.expr));
  }

  Result<Expr> converted(DType dtype) {
    XYNTRA_TRY(Value value, expression());
    te::CastMode mode;
    if (at(",")) {
      XYNTRA_CHECK_OK(lexer_.advance());
      mode.saturate = current().is_word("saturate");
      if (!mode.saturate && !current().is_word("overflow")) return error("expected saturate or overflow");
      XYNTRA_CHECK_OK(lexer_.advance());
      XYNTRA_CHECK_OK(symbol(","));
      auto rounding = std::find(kScaleRoundings.begin(), kScaleRoundings.end(), current().text);
      if (rounding == kScaleRoundings.end()) return error("expected nearest, up or down");
      mode.scale_rounding = static_cast<std::uint8_t>(rounding - kScaleRoundings.begin());
      XYNTRA_CHECK_OK(lexer_.advance());
    }
    XYNTRA_CHECK_OK(symbol(")"));
    return te::cast(dtype, std::move(value.expr), mode);
  }

  Result<Expr> function_of(ExprOp op, std::size_t offset) {
    std::vector<Value> operands;
    for (int i = 0; i < te::operand_count_of(op); ++i) {
      if (i > 0) XYNTRA_CHECK_OK(symbol(","));
      XYNTRA_TRY(Value value, expression());
      operands.push_back(std::move(value));
    }
    XYNTRA_CHECK_OK(symbol(")"));
    std::vector<Expr> parts;
    if (op == ExprOp::Select) {
      if (operands[0].expr.dtype() != DType::Bool)
        return lexer_.error_at(offset, "select needs a bool first");
      parts.push_back(operands[0].expr);
      operands.erase(operands.begin());
    }
    XYNTRA_CHECK_OK(unify(operands));
    for (Value& operand : operands) parts.push_back(std::move(operand.expr));
    bool tests = op == ExprOp::IsNan || op == ExprOp::IsInf;
    if (tests && !is_float(parts[0].dtype())) return lexer_.error_at(offset, "only floats are looked at so");
    return Expr::make(op, std::move(parts));
  }

  Lexer lexer_;
  Kernel kernel_;
  std::map<std::string, BufferId> buffers_;
  std::map<std::string, VarId> variables_;
  std::map<std::string, Expr> shared_;
  std::set<std::string> sizes_;  // those that stand in a shape
  int nested_ = 0;
};

}  // namespace

Result<std::vector<Kernel>> parse_kernels(std::string_view text, const std::string& file) {
  auto kernels = Parser(text).kernels();
  if (!kernels) return failure(std::move(kernels.error()).in_file(file));
  return kernels;
}

Result<Kernel> parse_kernel(std::string_view text, const std::string& file) {
  XYNTRA_TRY(std::vector<Kernel> kernels, parse_kernels(text, file));
  if (kernels.size() != 1) return bad_model("there is more than one kernel in this text");
  return std::move(kernels.front());
}

}  // namespace xyntra::kir
