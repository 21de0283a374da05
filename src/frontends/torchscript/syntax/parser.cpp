#include <limits>
#include <set>

#include "frontends/torchscript/syntax/lexer.h"
#include "frontends/torchscript/syntax/syntax.h"
#include "support/limits/current_budget.h"
#include "support/text/text.h"

namespace xyntra::torchscript {

namespace {

constexpr int kMostNestedSource = 64;
constexpr std::size_t kMostExpressions = 500'000;

// Words of Python that begin what torch does not write.
constexpr std::string_view kForeignWords[] = {"import", "from",   "try",      "raise",   "lambda",
                                              "async",  "await",  "yield",    "global",  "del",
                                              "break",  "assert", "continue", "nonlocal"};

const std::set<std::string_view> kNameLists = {"__parameters__", "__buffers__", "__forward_hooks__",
                                               "__annotations__", "__forward_pre_hooks__"};

class SourceParser {
 public:
  explicit SourceParser(SourceFile& file) : file_(file), lexer_(file.path, file.text) {}

  Status parse() {
    XYNTRA_CHECK_OK(advance());
    while (token_.kind != Token::Kind::End) {
      if (token_.is_name("class")) {
        XYNTRA_CHECK_OK(class_def());
      } else if (token_.is_name("def")) {
        XYNTRA_TRY(FunctionDef function, function_def());
        if (file_.function_named(function.name) != nullptr)
          return error_at(function.line, "function '" + std::string(function.name) + "' is defined twice");
        file_.functions.push_back(std::move(function));
      } else if (token_.is_name("op_version_set")) {  // of the first versions of the format
        while (token_.kind != Token::Kind::Newline) XYNTRA_CHECK_OK(advance());
        XYNTRA_CHECK_OK(advance());
      } else {
        return unexpected("a class or a function");
      }
    }
    return {};
  }

 private:
  // ---- tokens
  Status advance() {
    poll_limits();
    XYNTRA_TRY(token_, lexer_.next());
    return {};
  }

  tl::unexpected<Error> error_at(std::uint32_t line, const std::string& message,
                                 ErrorClass error_class = ErrorClass::BadModel) const {
    return lexer_.error(line, message, error_class);
  }

  std::string shown() const {
    switch (token_.kind) {
      case Token::Kind::End: return "the end";
      case Token::Kind::Newline: return "the end of the line";
      case Token::Kind::Indent: return "an indented line";
      case Token::Kind::Dedent: return "the end of the block";
      case Token::Kind::Text: return "a string";
      case Token::Kind::Name:
      case Token::Kind::Integer:
      case Token::Kind::Real:
      case Token::Kind::Symbol: return "'" + std::string(token_.text) + "'";
    }
    internal_error("shown: no such kind of token");
  }

  tl::unexpected<Error> unexpected(const std::string& wanted) const {
    for (std::string_view word : kForeignWords) {
      if (token_.is_name(word))
        return error_at(token_.line,
                        "'" + std::string(word) + "' is none of the Python that torch.jit.save writes",
                        ErrorClass::Unsupported);
    }
    return error_at(token_.line, "expected " + wanted + ", found " + shown());
  }

  Status expect(std::string_view symbol) {
    if (!token_.is_symbol(symbol)) return unexpected("'" + std::string(symbol) + "'");
    return advance();
  }
  Status expect_word(std::string_view word) {
    if (!token_.is_name(word)) return unexpected("'" + std::string(word) + "'");
    return advance();
  }
  Status expect_kind(Token::Kind kind, const char* what) {
    if (token_.kind != kind) return unexpected(what);
    return advance();
  }
  Result<std::string_view> expect_name() {
    if (token_.kind != Token::Kind::Name) return unexpected("a name");
    const std::string_view name = token_.text;
    XYNTRA_CHECK_OK(advance());
    return name;
  }
  // Whether the symbol stood here; it is passed.
  Result<bool> accept(std::string_view symbol) {
    if (!token_.is_symbol(symbol)) return false;
    XYNTRA_CHECK_OK(advance());
    return true;
  }

  Status enter() {
    if (++depth_ > kMostNestedSource) {
      return error_at(token_.line, "nested more than " + std::to_string(kMostNestedSource) + " deep",
                      ErrorClass::Limit);
    }
    return {};
  }

  // ---- expressions
  Result<ExpressionId> add(Expression expression) {
    if (file_.expressions.size() >= kMostExpressions)
      return error_at(expression.line, "more than " + std::to_string(kMostExpressions) + " expressions",
                      ErrorClass::Limit);
    file_.expressions.push_back(std::move(expression));
    return ExpressionId(file_.expressions.size() - 1);
  }

  Expression draft(Expression::Kind kind) const {
    Expression made;
    made.kind = kind;
    made.line = token_.line;
    return made;
  }

  // a if c else b
  Result<ExpressionId> expression() {
    XYNTRA_CHECK_OK(enter());
    XYNTRA_TRY(ExpressionId first, postfix());
    if (token_.is_name("if")) {
      Expression conditional = draft(Expression::Kind::Conditional);
      XYNTRA_CHECK_OK(advance());
      XYNTRA_TRY(const ExpressionId condition, postfix());
      XYNTRA_CHECK_OK(expect_word("else"));
      XYNTRA_TRY(const ExpressionId otherwise, expression());
      conditional.operands = {condition, first, otherwise};
      XYNTRA_TRY(first, add(std::move(conditional)));
    }
    --depth_;
    return first;
  }

  // a  or  a, b: the latter is a tuple
  Result<ExpressionId> expression_list() {
    Expression tuple = draft(Expression::Kind::Tuple);
    XYNTRA_TRY(const ExpressionId first, expression());
    if (!token_.is_symbol(",")) return first;
    tuple.operands = {first};
    while (token_.is_symbol(",")) {
      XYNTRA_CHECK_OK(advance());
      if (token_.kind == Token::Kind::Newline) break;
      XYNTRA_TRY(const ExpressionId item, expression());
      tuple.operands.push_back(item);
    }
    return add(std::move(tuple));
  }

  // x.name  x[i]  x(…), any number of them
  Result<ExpressionId> postfix() {
    XYNTRA_TRY(ExpressionId base, primary());
    while (token_.kind == Token::Kind::Symbol) {
      if (token_.text == ".") {
        Expression made = draft(Expression::Kind::Attribute);
        XYNTRA_CHECK_OK(advance());
        XYNTRA_TRY(made.name, expect_name());
        made.operands = {base};
        XYNTRA_TRY(base, add(std::move(made)));
      } else if (token_.text == "[") {
        Expression made = draft(Expression::Kind::Subscript);
        XYNTRA_CHECK_OK(advance());
        XYNTRA_TRY(const ExpressionId index, index_list());
        made.operands = {base, index};
        XYNTRA_TRY(base, add(std::move(made)));
      } else if (token_.text == "(") {
        XYNTRA_TRY(base, call(base));
      } else {
        break;
      }
    }
    return base;
  }

  // i]  or  a, b]: the latter is a tuple, as in Dict[str, Tensor]
  Result<ExpressionId> index_list() {
    Expression tuple = draft(Expression::Kind::Tuple);
    bool comma = false;
    while (!token_.is_symbol("]")) {
      XYNTRA_TRY(const ExpressionId item, expression());
      tuple.operands.push_back(item);
      XYNTRA_TRY(const bool more, accept(","));
      comma |= more;
      if (!more) break;
    }
    XYNTRA_CHECK_OK(expect("]"));
    if (tuple.operands.empty()) return error_at(tuple.line, "a subscript without an index");
    if (!comma) return tuple.operands[0];
    return add(std::move(tuple));
  }

  Result<ExpressionId> call(ExpressionId callee) {
    Expression made = draft(Expression::Kind::Call);
    made.operands = {callee};
    XYNTRA_CHECK_OK(expect("("));
    while (!token_.is_symbol(")")) {
      XYNTRA_TRY(ExpressionId argument, expression());
      std::string_view keyword;
      if (token_.is_symbol("=")) {
        if (file_[argument].kind != Expression::Kind::Name) return unexpected("',' or ')'");
        keyword = file_[argument].name;
        XYNTRA_CHECK_OK(advance());
        XYNTRA_TRY(argument, expression());
      } else if (!made.names.empty() && !made.names.back().empty()) {
        return error_at(token_.line, "an argument without a keyword after one with");
      }
      made.operands.push_back(argument);
      made.names.push_back(keyword);
      XYNTRA_TRY(const bool more, accept(","));
      if (!more) break;
    }
    XYNTRA_CHECK_OK(expect(")"));
    return add(std::move(made));
  }

  Result<ExpressionId> primary() {
    Expression made = draft(Expression::Kind::None);
    switch (token_.kind) {
      case Token::Kind::Integer: return number(std::move(made), false);
      case Token::Kind::Real: return number(std::move(made), false);
      case Token::Kind::Text:
        made.kind = Expression::Kind::Text;
        made.string = std::move(token_.string);
        if (!is_utf8(made.string)) return error_at(made.line, "a string that is not UTF-8");
        break;
      case Token::Kind::Name:
        made.kind = Expression::Kind::Name;
        made.name = token_.text;
        for (const std::string_view word : kForeignWords) {
          if (made.name == word) return unexpected("an expression");
        }
        if (made.name == "None") made.kind = Expression::Kind::None;
        if (made.name == "True" || made.name == "False") {
          made.kind = Expression::Kind::Bool;
          made.integer = made.name == "True" ? 1 : 0;
        }
        if (made.name == "inf" || made.name == "nan") {
          made.kind = Expression::Kind::Real;
          made.real = made.name == "inf" ? std::numeric_limits<double>::infinity()
                                         : std::numeric_limits<double>::quiet_NaN();
        }
        break;
      case Token::Kind::Symbol:
        if (token_.text == "-") {
          XYNTRA_CHECK_OK(advance());
          return number(std::move(made), true);
        }
        if (token_.text == "(") return parenthesised(std::move(made));
        if (token_.text == "[") return items(std::move(made), Expression::Kind::List, "]");
        if (token_.text == "{") return dict(std::move(made));
        return unexpected("an expression");
      case Token::Kind::End:
      case Token::Kind::Newline:
      case Token::Kind::Indent:
      case Token::Kind::Dedent: return unexpected("an expression");
    }
    XYNTRA_CHECK_OK(advance());
    return add(std::move(made));
  }

  Result<ExpressionId> number(Expression made, bool negative) {
    if (token_.kind == Token::Kind::Integer) {
      made.kind = Expression::Kind::Integer;
      constexpr std::uint64_t kLowest = std::uint64_t{1} << 63;
      if (token_.integer == kLowest && !negative)
        return error_at(made.line, "an integer of more than 64 bits");
      made.integer = static_cast<std::int64_t>(negative ? ~token_.integer + 1 : token_.integer);
    } else if (token_.kind == Token::Kind::Real || token_.is_name("inf") || token_.is_name("nan")) {
      made.kind = Expression::Kind::Real;
      made.real = token_.is_name("inf")   ? std::numeric_limits<double>::infinity()
                  : token_.is_name("nan") ? std::numeric_limits<double>::quiet_NaN()
                                          : token_.real;
      if (negative) made.real = -made.real;
    } else {
      return unexpected("a number");
    }
    XYNTRA_CHECK_OK(advance());
    return add(std::move(made));
  }

  Result<ExpressionId> items(Expression made, Expression::Kind kind, const char* close) {
    made.kind = kind;
    XYNTRA_CHECK_OK(advance());
    while (!token_.is_symbol(close)) {
      XYNTRA_TRY(const ExpressionId item, expression());
      made.operands.push_back(item);
      XYNTRA_TRY(const bool more, accept(","));
      if (!more) break;
    }
    XYNTRA_CHECK_OK(expect(close));
    return add(std::move(made));
  }

  Result<ExpressionId> dict(Expression made) {
    made.kind = Expression::Kind::Dict;
    XYNTRA_CHECK_OK(advance());
    while (!token_.is_symbol("}")) {
      XYNTRA_TRY(const ExpressionId key, expression());
      XYNTRA_CHECK_OK(expect(":"));
      XYNTRA_TRY(const ExpressionId value, expression());
      made.operands.push_back(key);
      made.operands.push_back(value);
      XYNTRA_TRY(const bool more, accept(","));
      if (!more) break;
    }
    XYNTRA_CHECK_OK(expect("}"));
    return add(std::move(made));
  }

  // (x) is x; (x,), () and (x, y) are tuples.
  Result<ExpressionId> parenthesised(Expression made) {
    made.kind = Expression::Kind::Tuple;
    XYNTRA_CHECK_OK(advance());
    bool comma = false;
    while (!token_.is_symbol(")")) {
      XYNTRA_TRY(const ExpressionId item, expression());
      made.operands.push_back(item);
      XYNTRA_TRY(const bool more, accept(","));
      comma |= more;
      if (!more) break;
    }
    XYNTRA_CHECK_OK(expect(")"));
    if (made.operands.size() == 1 && !comma) return made.operands[0];
    return add(std::move(made));
  }

  // ---- statements
  Result<Block> block() {
    XYNTRA_CHECK_OK(expect(":"));
    XYNTRA_CHECK_OK(expect_kind(Token::Kind::Newline, "the end of the line"));
    XYNTRA_CHECK_OK(expect_kind(Token::Kind::Indent, "an indented block"));
    XYNTRA_CHECK_OK(enter());
    Block made;
    while (token_.kind != Token::Kind::Dedent) {
      XYNTRA_TRY(Statement parsed, statement());
      file_.statements.push_back(std::move(parsed));
      made.emplace_back(file_.statements.size() - 1);
    }
    --depth_;
    XYNTRA_CHECK_OK(advance());
    return made;
  }

  Result<Statement> statement() {
    Statement made;
    made.line = token_.line;
    if (token_.is_name("if")) return if_statement(std::move(made));
    if (token_.is_name("while")) {
      made.kind = Statement::Kind::While;
      XYNTRA_CHECK_OK(advance());
      XYNTRA_TRY(made.value, expression());
      XYNTRA_TRY(made.body, block());
      return made;
    }
    if (token_.is_name("for")) {
      made.kind = Statement::Kind::For;
      XYNTRA_CHECK_OK(advance());
      XYNTRA_TRY(const ExpressionId target, postfix());
      made.targets = {target};
      XYNTRA_CHECK_OK(expect_word("in"));
      XYNTRA_TRY(made.value, expression());
      XYNTRA_TRY(made.body, block());
      return made;
    }
    if (token_.is_name("with")) {
      made.kind = Statement::Kind::With;
      XYNTRA_CHECK_OK(advance());
      XYNTRA_TRY(made.value, expression());
      if (token_.is_name("as")) {
        XYNTRA_CHECK_OK(advance());
        XYNTRA_TRY(const ExpressionId target, postfix());
        made.targets = {target};
      }
      XYNTRA_TRY(made.body, block());
      return made;
    }
    if (token_.is_name("return")) {
      made.kind = Statement::Kind::Return;
      XYNTRA_CHECK_OK(advance());
      if (token_.kind != Token::Kind::Newline) {
        XYNTRA_TRY(made.value, expression_list());
      }
    } else if (token_.is_name("pass")) {
      XYNTRA_CHECK_OK(advance());
    } else {
      XYNTRA_CHECK_OK(assignment(made));
    }
    XYNTRA_CHECK_OK(expect_kind(Token::Kind::Newline, "the end of the line"));
    return made;
  }

  Result<Statement> if_statement(Statement made) {
    made.kind = Statement::Kind::If;
    XYNTRA_CHECK_OK(enter());
    XYNTRA_CHECK_OK(advance());
    XYNTRA_TRY(made.value, expression());
    XYNTRA_TRY(made.body, block());
    if (token_.is_name("elif")) {
      Statement nested;
      nested.line = token_.line;
      XYNTRA_TRY(nested, if_statement(std::move(nested)));
      file_.statements.push_back(std::move(nested));
      made.otherwise = {StatementId(file_.statements.size() - 1)};
    } else if (token_.is_name("else")) {
      XYNTRA_CHECK_OK(advance());
      XYNTRA_TRY(made.otherwise, block());
    }
    --depth_;
    return made;
  }

  // x = …   x : T = …   a, b, = …   self.x = …   or an expression by itself
  Status assignment(Statement& made) {
    made.kind = Statement::Kind::Expression;
    XYNTRA_TRY(const ExpressionId first, expression());
    made.targets = {first};
    while (token_.is_symbol(",")) {
      made.unpacks = true;
      XYNTRA_CHECK_OK(advance());
      if (token_.is_symbol("=")) break;
      XYNTRA_TRY(const ExpressionId target, expression());
      made.targets.push_back(target);
    }
    if (!made.unpacks) {
      XYNTRA_TRY(const bool annotated, accept(":"));
      if (annotated) XYNTRA_CHECK_OK(expression());
    }
    XYNTRA_TRY(const bool assigned, accept("="));
    if (!assigned) {
      if (made.unpacks) return unexpected("'='");
      made.value = first;
      made.targets.clear();
      return {};
    }
    made.kind = Statement::Kind::Assign;
    for (const ExpressionId target : made.targets) {
      using enum Expression::Kind;
      const Expression::Kind kind = file_[target].kind;
      if (kind != Name && kind != Attribute)
        return error_at(file_[target].line,
                        "an assignment to something that is neither a name nor an attribute",
                        kind == Subscript ? ErrorClass::Unsupported : ErrorClass::BadModel);
    }
    XYNTRA_TRY(made.value, expression_list());
    return {};
  }

  // ---- functions and classes
  Result<FunctionDef> function_def() {
    FunctionDef made;
    made.line = token_.line;
    XYNTRA_CHECK_OK(expect_word("def"));
    XYNTRA_TRY(made.name, expect_name());
    XYNTRA_CHECK_OK(expect("("));
    std::set<std::string_view> names;
    while (!token_.is_symbol(")")) {
      XYNTRA_TRY(const bool keywords_follow, accept("*"));
      if (!keywords_follow) {
        Parameter parameter;
        XYNTRA_TRY(parameter.name, expect_name());
        if (!names.insert(parameter.name).second)
          return error_at(token_.line, "parameter '" + std::string(parameter.name) + "' is there twice");
        XYNTRA_TRY(const bool typed, accept(":"));
        if (typed) {
          XYNTRA_TRY(parameter.type, expression());
        }
        XYNTRA_TRY(const bool optional, accept("="));
        if (optional) {
          XYNTRA_TRY(parameter.initial, expression());
        }
        made.parameters.push_back(parameter);
      }
      XYNTRA_TRY(const bool more, accept(","));
      if (!more) break;
    }
    XYNTRA_CHECK_OK(expect(")"));
    XYNTRA_TRY(const bool typed, accept("->"));
    if (typed) {
      XYNTRA_TRY(made.returns, expression());
    }
    XYNTRA_TRY(made.body, block());
    return made;
  }

  Status class_def() {
    ClassDef made;
    made.line = token_.line;
    XYNTRA_CHECK_OK(advance());
    XYNTRA_TRY(made.name, expect_name());
    XYNTRA_TRY(const bool derived, accept("("));
    if (derived) {
      if (!token_.is_symbol(")")) {
        XYNTRA_TRY(made.base, expect_name());
      }
      XYNTRA_CHECK_OK(expect(")"));
    }
    XYNTRA_CHECK_OK(expect(":"));
    XYNTRA_CHECK_OK(expect_kind(Token::Kind::Newline, "the end of the line"));
    XYNTRA_CHECK_OK(expect_kind(Token::Kind::Indent, "an indented block"));
    while (token_.kind != Token::Kind::Dedent) XYNTRA_CHECK_OK(class_line(made));
    XYNTRA_CHECK_OK(advance());
    if (file_.class_named(made.name) != nullptr)
      return error_at(made.line, "class '" + std::string(made.name) + "' is defined twice");
    file_.classes.push_back(std::move(made));
    return {};
  }

  Status class_line(ClassDef& made) {
    if (token_.is_name("def")) {
      XYNTRA_TRY(FunctionDef method, function_def());
      if (made.method(method.name) != nullptr)
        return error_at(method.line, "method '" + std::string(method.name) + "' is defined twice");
      made.methods.push_back(std::move(method));
      return {};
    }
    if (token_.is_name("pass")) {
      XYNTRA_CHECK_OK(advance());
      return expect_kind(Token::Kind::Newline, "the end of the line");
    }
    Field field;
    const std::uint32_t line = token_.line;
    XYNTRA_TRY(field.name, expect_name());
    // __annotations__["0"] = T: a field whose name is no identifier
    XYNTRA_TRY(const bool by_text, accept("["));
    if (by_text) {
      XYNTRA_CHECK_OK(expression());
      XYNTRA_CHECK_OK(expect("]"));
    }
    XYNTRA_TRY(const bool typed, accept(":"));
    if (typed) {
      XYNTRA_TRY(field.type, expression());
    }
    XYNTRA_TRY(const bool assigned, accept("="));
    if (assigned) {
      XYNTRA_TRY(field.value, expression());
    }
    XYNTRA_CHECK_OK(expect_kind(Token::Kind::Newline, "the end of the line"));
    if (kNameLists.contains(field.name)) return {};
    if (made.field(field.name) != nullptr)
      return error_at(line, "field '" + std::string(field.name) + "' is defined twice");
    made.fields.push_back(field);
    return {};
  }

  SourceFile& file_;
  Lexer lexer_;
  Token token_;
  int depth_ = 0;
};

template <class T>
const T* named(const std::vector<T>& all, std::string_view wanted) {
  for (const T& one : all) {
    if (one.name == wanted) return &one;
  }
  return nullptr;
}

}  // namespace

const FunctionDef* ClassDef::method(std::string_view wanted) const { return named(methods, wanted); }
const Field* ClassDef::field(std::string_view wanted) const { return named(fields, wanted); }
const ClassDef* SourceFile::class_named(std::string_view name) const { return named(classes, name); }
const FunctionDef* SourceFile::function_named(std::string_view name) const { return named(functions, name); }

Result<std::unique_ptr<const SourceFile>> parse_source(std::string path, std::string text) {
  auto file = std::make_unique<SourceFile>();
  file->path = std::move(path);
  file->text = std::move(text);
  XYNTRA_CHECK_OK(SourceParser(*file).parse());
  return file;
}

}  // namespace xyntra::torchscript
