#include "ir/text_parser.h"

#include <algorithm>
#include <set>

#include "ir/text.h"
#include "ir/text_literals.h"
#include "ir/text_reader.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

constexpr int kDeepestNesting = 64;
constexpr std::size_t kMostNodes = 1'000'000;
constexpr std::size_t kHighestRank = 32;
constexpr std::size_t kLongestDim = 4096;  // characters of one size expression
constexpr std::size_t kHashDigits = 64;

// Recursive descent with one token of lookahead. Nesting is counted, so the stack is bounded.
class Parser : public TokenReader {
 public:
  explicit Parser(std::string_view text) : TokenReader(text) {}
  // In the middle of another text; constants may be named by hash.
  Parser(const Lexer& lexer, const Token& current, WeightHashes& weights)
      : TokenReader(lexer, current), weights_(&weights) {}

  Result<Module> module() {
    XYNTRA_CHECK_OK(advance());
    if (!current_.is_word("xir")) return expected("'xir 1' at the start of the file");
    XYNTRA_CHECK_OK(advance());
    if (!current_.is(Kind::Number, "1")) return expected("version 1, the only one there is");
    XYNTRA_CHECK_OK(advance());
    Module module;
    if (current_.is_word("module")) XYNTRA_CHECK_OK(header(module));
    XYNTRA_TRY(module.graph, graph(1));
    if (current_.kind != Kind::End) return expected("the end of the file after the main graph");
    XYNTRA_CHECK_OK(verify(module.graph));
    return module;
  }

  Result<Graph> graph_within(Lexer& lexer, Token& current) {
    XYNTRA_TRY(Graph result, graph(1));
    lexer = lexer_;
    current = current_;
    return result;
  }

 private:
  // ---- Module header ----
  Status header(Module& module) {
    XYNTRA_CHECK_OK(advance());
    XYNTRA_CHECK_OK(expect("{", "after 'module'"));
    while (!current_.is_symbol("}")) {
      if (current_.is_word("metadata")) {
        XYNTRA_CHECK_OK(metadata(module));
      } else if (current_.is_word("symbol")) {
        XYNTRA_CHECK_OK(symbol(module));
      } else {
        return expected("'metadata', 'symbol' or '}' in the module's header");
      }
    }
    return advance();
  }

  Status metadata(Module& module) {
    XYNTRA_CHECK_OK(advance());
    Token place = current_;
    XYNTRA_TRY(std::string key, name(Kind::String, "a key in quotes"));
    XYNTRA_CHECK_OK(expect("=", "after the key"));
    XYNTRA_TRY(std::string value, name(Kind::String, "a value in quotes"));
    if (!module.metadata.emplace(std::move(key), std::move(value)).second) {
      return lexer_.error_at(place.offset, "this metadata key is given twice");
    }
    return {};
  }

  Status symbol(Module& module) {
    XYNTRA_CHECK_OK(advance());
    Token place = current_;
    XYNTRA_TRY(std::string key, word("the name of a symbolic size"));
    if (!current_.is_word("in")) return expected("'in' and a range such as 1..64");
    XYNTRA_CHECK_OK(advance());
    Range range;
    XYNTRA_TRY(range.low, integer("the lowest size"));
    XYNTRA_CHECK_OK(expect("..", "between the lowest and the highest size"));
    if (current_.kind == Kind::Number) {
      XYNTRA_TRY(range.high, integer("the highest size"));
    }
    if (range.low < 0 || range.low > range.high)
      return lexer_.error_at(place.offset, "this range is empty or negative");
    if (!module.symbols.emplace(std::move(key), range).second) {
      return lexer_.error_at(place.offset, "this symbol is declared twice");
    }
    return {};
  }

  // ---- Types ----
  Result<Type> type(int depth) {
    if (depth > kDeepestNesting) return too_deep("types");
    XYNTRA_TRY(bool unknown, accept("?"));
    if (unknown) return Type();
    bool sequence = current_.is_word("seq");
    if (sequence || current_.is_word("opt")) {
      XYNTRA_CHECK_OK(advance());
      XYNTRA_CHECK_OK(expect("<", "before the element's type"));
      XYNTRA_TRY(Type element, type(depth + 1));
      XYNTRA_CHECK_OK(expect(">", "after the element's type"));
      return sequence ? Type::sequence(std::move(element)) : Type::optional(std::move(element));
    }
    XYNTRA_TRY(DType dtype, element_type());
    if (!current_.is_symbol("[")) return expected("'[' and the sizes of the tensor");
    XYNTRA_TRY(auto shape, this->shape());
    return Type::tensor(dtype, std::move(shape));
  }

  Result<DType> element_type() {
    auto dtype = current_.kind == Kind::Word ? dtype_named(current_.text) : std::nullopt;
    if (!dtype) return expected("a type such as f32[2, n]");
    XYNTRA_CHECK_OK(advance());
    return *dtype;
  }

  // The current token is '['. Sizes have a grammar of their own, which Dim reads.
  Result<std::optional<Shape>> shape() {
    XYNTRA_TRY(auto pieces, lexer_.bracketed());
    XYNTRA_CHECK_OK(advance());
    if (pieces.size() == 1 && trimmed(pieces[0].text) == "*") return std::nullopt;
    if (pieces.size() > kHighestRank) {
      return lexer_.error_at(pieces[0].offset, "more than 32 dimensions", ErrorClass::Limit);
    }
    Shape dims;
    for (const Lexer::Piece& piece : pieces) {
      XYNTRA_TRY(Dim dim, parse_size(lexer_, piece));
      dims.push_back(std::move(dim));
    }
    return dims;
  }

  tl::unexpected<Error> too_deep(const char* what) const {
    return lexer_.error_at(current_.offset, std::string(what) + " are nested deeper than 64",
                           ErrorClass::Limit);
  }

  // ---- Constants ----
  // A tensor's type and its elements.
  Result<Tensor> tensor() {
    const Token place = current_;
    XYNTRA_TRY(ConstantType type, constant_type());
    return elements(type.dtype, std::move(type.dims), place);
  }

  struct ConstantType {
    DType dtype = DType::F32;
    Dims dims;
  };
  Result<ConstantType> constant_type() {
    const Token place = current_;
    XYNTRA_TRY(DType dtype, element_type());
    if (!current_.is_symbol("[")) return expected("'[' and the sizes of the constant");
    XYNTRA_TRY(auto shape, this->shape());
    auto dims = shape ? static_dims(*shape) : std::nullopt;
    if (!dims) return lexer_.error_at(place.offset, "the sizes of a constant are numbers");
    return ConstantType{dtype, std::move(*dims)};
  }

  // sha256"…" where the constants of this graph may be named so.
  bool at_hash(int depth) const { return weights_ != nullptr && depth == 1 && current_.is_word("sha256"); }

  Result<std::string> hash(DType dtype, const Dims& dims, const Token& place) {
    auto size = byte_size(dtype, dims);
    if (!size) return lexer_.error_at(place.offset, size.error().message, ErrorClass::Limit);
    XYNTRA_CHECK_OK(advance());
    const std::size_t start = current_.offset;
    XYNTRA_TRY(std::string digits, name(Kind::String, "the hash of a constant in quotes"));
    if (!is_hash(digits)) return lexer_.error_at(start, "a hash has 64 digits, 0 to 9 and a to f");
    return digits;
  }

  Result<Tensor> elements(DType dtype, Dims dims, const Token& place) {
    if (current_.kind == Kind::Base64) return encoded_elements(dtype, std::move(dims), place);
    if (current_.is_symbol("...")) {
      return error("the elements of this constant were left out when the text was printed");
    }
    auto count = element_count(dims);
    if (!count) return lexer_.error_at(place.offset, count.error().message, ErrorClass::Limit);
    // Each element takes at least two characters, so a short text cannot ask for much memory.
    if (*count > static_cast<std::int64_t>(lexer_.remaining() / 2 + 1)) return wrong_count(*count, place);
    const bool scalar = dims.empty() && !current_.is_symbol("[");
    if (is_string(dtype)) return strings(std::move(dims), *count, scalar, place);
    XYNTRA_TRY(Tensor tensor, Tensor::allocate(dtype, std::move(dims)));
    if (scalar) {
      XYNTRA_CHECK_OK(element(tensor, 0));
      return tensor;
    }
    XYNTRA_CHECK_OK(expect("[", "or base64\"…\" with the elements of a constant"));
    std::int64_t index = 0;
    XYNTRA_CHECK_OK(list_until("]", "among the elements", [&]() -> Status {
      if (index >= *count) return wrong_count(*count, place);
      return element(tensor, index++);
    }));
    if (index != *count) return wrong_count(*count, place);
    return tensor;
  }

  Result<Tensor> strings(Dims dims, std::int64_t count, bool scalar, const Token& place) {
    std::vector<std::string> texts;
    const auto one = [&]() -> Status {
      if (std::ssize(texts) >= count) return wrong_count(count, place);
      XYNTRA_TRY(std::string text, name(Kind::String, "an element of type string in quotes"));
      texts.push_back(std::move(text));
      return {};
    };
    if (scalar) {
      XYNTRA_CHECK_OK(one());
    } else {
      XYNTRA_CHECK_OK(expect("[", "or base64\"…\" with the elements of a constant"));
      XYNTRA_CHECK_OK(list_until("]", "among the elements", one));
    }
    if (std::ssize(texts) != count) return wrong_count(count, place);
    const std::vector<std::string_view> elements(texts.begin(), texts.end());
    auto tensor = Tensor::of_strings(std::move(dims), elements);
    if (!tensor) return lexer_.error_at(place.offset, tensor.error().message, tensor.error().error_class);
    return tensor;
  }

  tl::unexpected<Error> wrong_count(std::int64_t count, const Token& place) const {
    return lexer_.error_at(place.offset, "this type needs exactly " + std::to_string(count) + " elements");
  }

  Status element(Tensor& tensor, std::int64_t index) {
    bool literal = current_.kind == Kind::Number || current_.kind == Kind::Word;
    if (!literal || !set_element_text(tensor, index, current_.text)) {
      return expected("an element of type " + std::string(name_of(tensor.dtype())));
    }
    return advance();
  }

  Result<Tensor> encoded_elements(DType dtype, Dims dims, const Token& place) {
    auto size = byte_size(dtype, dims);
    if (!size) return lexer_.error_at(place.offset, size.error().message, ErrorClass::Limit);
    auto bytes = base64_decode(current_.text);
    if (!bytes) return error("this is not base64: letters, digits, '+', '/' and '=' at the end");
    if (is_string(dtype)) {
      const auto owner = std::make_shared<const std::vector<std::byte>>(bytes->begin(), bytes->end());
      auto tensor = Tensor::borrow(dtype, std::move(dims), *owner, owner);
      if (!tensor) return error(tensor.error().message);
      XYNTRA_CHECK_OK(advance());
      return tensor;
    }
    if (static_cast<std::int64_t>(bytes->size()) != *size) {
      return error("these are " + std::to_string(bytes->size()) + " bytes, but the type needs " +
                   std::to_string(*size));
    }
    XYNTRA_CHECK_OK(advance());
    XYNTRA_TRY(Tensor tensor, Tensor::allocate(dtype, std::move(dims)));
    auto target = tensor.mutable_bytes();
    std::copy(bytes->begin(), bytes->end(), target.begin());
    return tensor;
  }

  // ---- Graphs ----
  Result<Graph> graph(int depth) {
    if (depth > kDeepestNesting) return too_deep("graphs");
    if (!current_.is_word("graph")) return expected("'graph'");
    XYNTRA_CHECK_OK(advance());
    Graph graph;
    XYNTRA_TRY(graph.name, name(Kind::AtName, "the graph's name, such as @main"));
    XYNTRA_CHECK_OK(expect("(", "and the graph's inputs"));
    XYNTRA_CHECK_OK(list_until(")", "among the graph's inputs", [&] { return input(graph, depth); }));
    XYNTRA_CHECK_OK(expect("->", "and the graph's outputs"));
    XYNTRA_CHECK_OK(expect("(", "and the names of the graph's outputs"));
    // Outputs stand before the values they name: remember them, look them up at the end.
    std::vector<std::pair<std::string, std::size_t>> outputs;
    XYNTRA_CHECK_OK(list_until(")", "among the graph's outputs", [&]() -> Status {
      std::size_t place = current_.offset;
      XYNTRA_TRY(std::string output, name(Kind::ValueName, "the name of an output, such as %y"));
      outputs.emplace_back(std::move(output), place);
      return {};
    }));
    XYNTRA_CHECK_OK(expect("{", "before the body of the graph"));
    while (!current_.is_symbol("}")) {
      if (current_.is_word("const")) {
        XYNTRA_CHECK_OK(constant(graph, depth));
      } else {
        XYNTRA_CHECK_OK(node(graph, depth));
      }
    }
    for (const auto& [output, place] : outputs) {
      XYNTRA_TRY(ValueId id, lookup(graph, output, place));
      graph.outputs.push_back(id);
    }
    XYNTRA_CHECK_OK(advance());
    return graph;
  }

  Result<ValueId> lookup(const Graph& graph, const std::string& value, std::size_t place) const {
    ValueId id = graph.find(value);
    if (id.valid()) return id;
    return lexer_.error_at(place,
                           "the value %" + printable(value) + " is not defined in this graph before this");
  }

  // A name that this graph does not have yet.
  Result<std::string> fresh_name(const Graph& graph) {
    std::size_t place = current_.offset;
    XYNTRA_TRY(std::string fresh, name(Kind::ValueName, "the name of a value, such as %x"));
    if (fresh.empty()) return lexer_.error_at(place, "the name of a value is empty");
    if (graph.find(fresh).valid()) {
      return lexer_.error_at(place, "the value %" + printable(fresh) + " is defined twice");
    }
    return fresh;
  }

  Result<Type> optional_type() {
    XYNTRA_TRY(bool typed, accept(":"));
    return typed ? type(1) : Result<Type>(Type());
  }

  Status input(Graph& graph, int depth) {
    XYNTRA_TRY(std::string value, fresh_name(graph));
    Token place = current_;
    XYNTRA_TRY(Type value_type, optional_type());
    XYNTRA_TRY(bool has_default, accept("="));
    ValueId id = graph.add_input(std::move(value), std::move(value_type));
    if (!has_default) return {};
    const Type& declared = graph.value(id).type;
    if (!declared.has_static_shape())
      return lexer_.error_at(place.offset, "an input with a default needs a fixed shape");
    Dims dims = *static_dims(*declared.shape);
    if (at_hash(depth)) {
      XYNTRA_TRY((*weights_)[id], hash(declared.dtype, dims, place));
      return {};
    }
    XYNTRA_TRY(graph.value(id).constant, elements(declared.dtype, std::move(dims), place));
    return {};
  }

  Status constant(Graph& graph, int depth) {
    XYNTRA_CHECK_OK(advance());
    XYNTRA_TRY(std::string value, fresh_name(graph));
    XYNTRA_CHECK_OK(expect(":", "and the type of the constant"));
    const Token place = current_;
    XYNTRA_TRY(ConstantType type, constant_type());
    XYNTRA_CHECK_OK(expect("=", "before the elements of a constant"));
    if (at_hash(depth)) {
      XYNTRA_TRY(std::string digits, hash(type.dtype, type.dims, place));
      ValueId id = graph.add_constant(std::move(value), Tensor());
      graph.value(id).type = Type::tensor(type.dtype, shape_of(type.dims));
      weights_->emplace(id, std::move(digits));
      return {};
    }
    XYNTRA_TRY(Tensor contents, elements(type.dtype, std::move(type.dims), place));
    graph.add_constant(std::move(value), std::move(contents));
    return {};
  }

  // [output {',' output} '='] Op '(' operands ')' [@origin] [attributes]
  Status node(Graph& graph, int depth) {
    if (++nodes_ > kMostNodes)
      return lexer_.error_at(current_.offset, "more than 1000000 nodes", ErrorClass::Limit);
    std::vector<std::string> outputs;
    std::vector<Type> types;
    if (current_.kind == Kind::ValueName || current_.is_symbol("_")) {
      XYNTRA_CHECK_OK(node_outputs(graph, outputs, types));
    } else if (current_.kind != Kind::Word && current_.kind != Kind::String) {
      return expected("'const', a node or '}'");
    }
    XYNTRA_TRY(std::string op, word("the name of an operator"));
    std::vector<ValueId> operands;
    XYNTRA_CHECK_OK(expect("(", "and the operands"));
    XYNTRA_CHECK_OK(list_until(")", "among the operands", [&] { return operand(graph, operands); }));
    std::string origin;
    if (current_.kind == Kind::AtName) {
      XYNTRA_TRY(origin, take_text());
    }
    Attributes attributes;
    XYNTRA_TRY(bool has_attributes, accept("{"));
    if (has_attributes) {
      XYNTRA_CHECK_OK(list_until("}", "among the attributes", [&] { return attribute(attributes, depth); }));
    }
    NodeId id = graph.add_node(std::move(op), std::move(operands), std::move(outputs), std::move(attributes),
                               std::move(origin));
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (graph.node(id).outputs[i].valid())
        graph.value(graph.node(id).outputs[i]).type = std::move(types[i]);
    }
    return {};
  }

  Status node_outputs(const Graph& graph, std::vector<std::string>& outputs, std::vector<Type>& types) {
    std::set<std::string> here;
    return list_until("=", "among the outputs of a node", [&]() -> Status {
      XYNTRA_TRY(bool unwanted, accept("_"));
      std::size_t place = current_.offset;
      std::string output;
      Type output_type;
      if (!unwanted) {
        XYNTRA_TRY(output, fresh_name(graph));
        XYNTRA_TRY(output_type, optional_type());
        if (!here.insert(output).second) {
          return lexer_.error_at(place, "the value %" + printable(output) + " is defined twice");
        }
      }
      outputs.push_back(std::move(output));
      types.push_back(std::move(output_type));
      return {};
    });
  }

  Status operand(const Graph& graph, std::vector<ValueId>& operands) {
    XYNTRA_TRY(bool absent, accept("_"));
    ValueId id;
    if (!absent) {
      std::size_t place = current_.offset;
      XYNTRA_TRY(std::string value, name(Kind::ValueName, "an operand, such as %x, or _ for an absent one"));
      XYNTRA_TRY(id, lookup(graph, value, place));
    }
    operands.push_back(id);
    return {};
  }

  // ---- Attributes ----
  Status attribute(Attributes& attributes, int depth) {
    std::size_t place = current_.offset;
    XYNTRA_TRY(std::string key, word("the name of an attribute"));
    XYNTRA_CHECK_OK(expect("=", "after the name of an attribute"));
    XYNTRA_TRY(Attribute value, attribute_value(depth));
    if (attributes.emplace(std::move(key), std::move(value)).second) return {};
    return lexer_.error_at(place, "this attribute is given twice");
  }

  Result<Attribute> attribute_value(int depth) {
    if (current_.kind == Kind::String) return take_text();
    if (current_.is_symbol("[")) return attribute_list(list_kind_ahead());
    if (current_.is_word("graph")) {
      XYNTRA_TRY(Graph subgraph, graph(depth + 1));
      return std::make_shared<const Graph>(std::move(subgraph));
    }
    if (current_.is_word("type")) {
      XYNTRA_CHECK_OK(advance());
      return type(1);
    }
    if (current_.is_word("tensor")) {
      XYNTRA_CHECK_OK(advance());
      return tensor();
    }
    for (const char* kind : {"ints", "floats", "strings"}) {
      if (!current_.is_word(kind)) continue;
      XYNTRA_CHECK_OK(advance());
      return attribute_list(kind);
    }
    if (auto whole = parse_i64(current_.text); whole && current_.kind == Kind::Number) {
      XYNTRA_CHECK_OK(advance());
      return *whole;
    }
    return attribute_float();
  }

  Result<float> attribute_float() {
    bool literal = current_.kind == Kind::Number || current_.kind == Kind::Word;
    auto value = literal ? parse_float_text(current_.text) : std::nullopt;
    if (!value) return expected("a value: 1, 1.5, \"text\", a list, tensor, type or graph");
    XYNTRA_CHECK_OK(advance());
    return *value;
  }

  // What a list holds is said by its first element: the lexer is a value, so a copy can look ahead.
  std::string_view list_kind_ahead() const {
    Lexer ahead = lexer_;
    auto first = ahead.next();
    if (!first || first->is_symbol("]")) return "";
    if (first->kind == Kind::String) return "strings";
    return parse_i64(first->text) ? "ints" : "floats";
  }

  Result<Attribute> attribute_list(std::string_view kind) {
    if (kind.empty()) return error("what an empty list holds must be said: ints[], floats[] or strings[]");
    XYNTRA_CHECK_OK(expect("[", "before the elements of a list"));
    if (kind == "ints") {
      return typed_list<std::int64_t>([&] { return integer("an element of this list of integers"); });
    }
    if (kind == "floats") return typed_list<float>([&] { return attribute_float(); });
    return typed_list<std::string>([&] { return name(Kind::String, "an element of this list of strings"); });
  }

  template <class Element, class Read>
  Result<Attribute> typed_list(Read read) {
    std::vector<Element> elements;
    XYNTRA_CHECK_OK(list_until("]", "among the elements of a list", [&]() -> Status {
      XYNTRA_TRY(Element element, read());
      elements.push_back(std::move(element));
      return {};
    }));
    return elements;
  }

  WeightHashes* weights_ = nullptr;  // null: every constant has its elements
  std::size_t nodes_ = 0;
};

}  // namespace

bool is_hash(std::string_view text) {
  return text.size() == kHashDigits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

Result<Dim> parse_size(const Lexer& lexer, const Lexer::Piece& piece) {
  const auto too_long = [&] {
    return lexer.error_at(piece.offset, "this size expression is too long", ErrorClass::Limit);
  };
  if (piece.text.size() > kLongestDim) return too_long();
  auto dim = Dim::parse(piece.text);
  if (!dim) return lexer.error_at(piece.offset, dim.error().message);
  if (dim->is_constant() && dim->constant() < 0)
    return lexer.error_at(piece.offset, "a size cannot be negative");
  // Multiplied out it can be longer than it was written, and must still be readable when it is printed.
  const std::string canonical = dim->to_string();
  if (canonical.size() > kLongestDim || (canonical != piece.text && !Dim::parse(canonical)))
    return too_long();
  return *dim;
}

Result<Graph> parse_graph(Lexer& lexer, Token& current, WeightHashes& weights) {
  return Parser(lexer, current, weights).graph_within(lexer, current);
}

Result<Module> parse_xir(std::string_view text) { return Parser(text).module(); }

}  // namespace xyntra
