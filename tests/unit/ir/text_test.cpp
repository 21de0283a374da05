#include "ir/text.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "ir/text_literals.h"

namespace xyntra {
namespace {

// What every text must survive: it prints the same again, and says the same.
Module round_trip(const Module& module) {
  std::string text = print_xir(module);
  auto back = parse_xir(text);
  EXPECT_TRUE(back.has_value()) << back.error().message << "\n" << text;
  if (!back) return {};
  EXPECT_EQ(print_xir(*back), text);
  EXPECT_EQ(content_hash(*back), content_hash(module));
  return std::move(*back);
}

std::string message_of(const std::string& text) {
  auto parsed = parse_xir(text);
  return parsed ? "no error" : parsed.error().message;
}

std::string in_body(const std::string& line) {
  return "xir 1\ngraph @g(%x: f32[2]) -> () {\n" + line + "\n}\n";
}

constexpr const char* kWritten = R"(xir 1
module {
  metadata "producer" = "torch 2.15"
  symbol batch in 1..64
  symbol seq in 1..
}
graph @main(%x: f32[batch, 128], %mode: bool[] = true) -> (%y, %x) {
  const %scale: f32[] = 0.5
  const %axes: i64[2] = [0, -1]
  %h: f32[batch, 2*seq + 1] = MatMul(%x, %scale) @encoder/matmul
  %y, _ = Dropout(%h, _, %axes) @"a b" {seed = 1, "the note" = "x\"y"}
  com.microsoft.Print(%y)
}
)";

TEST(Text, PrintsWhatAPersonWrites) {
  auto module = parse_xir(kWritten);
  ASSERT_TRUE(module.has_value()) << module.error().message;
  EXPECT_EQ(print_xir(*module), kWritten);
  EXPECT_EQ(module->symbols.at("batch"), (Range{1, 64}));
  EXPECT_EQ(module->symbols.at("seq"), (Range{1, INT64_MAX}));
  EXPECT_EQ(module->graph.node(NodeId(1)).origin, "a b");
  EXPECT_FALSE(module->graph.node(NodeId(1)).inputs[1].valid());
  EXPECT_FALSE(module->graph.node(NodeId(1)).outputs[1].valid());
  EXPECT_TRUE(module->graph.node(NodeId(2)).outputs.empty());
  round_trip(*module);
}

TEST(Text, EveryKindOfAttributeComesBack) {
  auto body = std::make_shared<Graph>();
  body->name = "body";
  ValueId in = body->add_input("i", Type::sequence(Type::optional(Type::tensor(DType::F16))));
  body->outputs = {body->output_of(body->add_node("Identity", {in}, {"o"}))};
  const float payload = std::bit_cast<float>(0x7fc01234U);
  const float inf = std::numeric_limits<float>::infinity();
  Module module;
  module.graph.name = "";
  module.graph.add_node("Everything", {}, {"out"},
                        {{"int", std::int64_t{INT64_MIN}},
                         {"float", 1.0F},
                         {"nan", std::numeric_limits<float>::quiet_NaN()},
                         {"payload", payload},
                         {"minus_zero", -0.0F},
                         {"string", std::string("\0\xff\n\"\\ \xe2\x80\xae", 8)},
                         {"ints", std::vector<std::int64_t>{1, -2}},
                         {"no_ints", std::vector<std::int64_t>{}},
                         {"floats", std::vector<float>{payload, inf, -inf, 1e-45F, 16777216.0F}},
                         {"no_floats", std::vector<float>{}},
                         {"strings", std::vector<std::string>{"", "ü"}},
                         {"no_strings", std::vector<std::string>{}},
                         {"tensor", Tensor::scalar_f32(-0.0F)},
                         {"empty", *Tensor::allocate(DType::I4, {0, 3})},
                         {"type", Type::tensor(DType::U2, Shape{Dim::symbol("a b'"), 3})},
                         {"unknown", Type()},
                         {"graph", std::shared_ptr<const Graph>(body)},
                         {"a name, quoted", std::int64_t{0}}});
  Module back = round_trip(module);
  const Attributes& attributes = back.graph.node(NodeId(0)).attributes;
  ASSERT_EQ(attributes.size(), module.graph.node(NodeId(0)).attributes.size());
  for (const auto& [name, value] : module.graph.node(NodeId(0)).attributes) {
    EXPECT_EQ(attributes.at(name).index(), value.index()) << name;
  }
  EXPECT_EQ(std::bit_cast<std::uint32_t>(std::get<float>(attributes.at("payload"))), 0x7fc01234U);
  EXPECT_EQ(std::get<std::string>(attributes.at("string")).size(), 8U);
}

TEST(Text, HostileNamesAreQuoted) {
  for (const char* name : {"a b", "a//b", "//", "%x", "\x1b[31m", "\"", "a\nb", "const", "_", "1", "a/",
                           "ünï", "..", "\xff\xfe", "}", "a:b", "x...y"}) {
    Module module;
    module.graph.name = name;
    ValueId input = module.graph.add_input(name, Type::tensor(DType::F32, Shape{Dim::symbol(name)}));
    NodeId node =
        module.graph.add_node(name, {input}, {std::string(name) + "2"}, {{name, std::string(name)}}, name);
    module.graph.outputs = {module.graph.output_of(node)};
    module.metadata[name] = name;
    module.symbols[name] = {1, 2};
    Module back = round_trip(module);
    ASSERT_EQ(back.graph.node_count(), 1U) << name;
    EXPECT_EQ(back.graph.node(NodeId(0)).op, name);
    EXPECT_EQ(back.graph.node(NodeId(0)).origin, name);
    EXPECT_EQ(back.graph.name, name);
  }
}

TEST(Text, EveryBitPatternOfEveryNarrowTypeIsExact) {
  for (DType dtype : all_dtypes()) {
    const int width = bits_of(dtype);
    const std::int64_t patterns = std::int64_t{1} << std::min(width, 16);
    auto source = Tensor::allocate(dtype, {patterns}).value();
    auto target = Tensor::allocate(dtype, {patterns}).value();
    // All patterns of up to 16 bits; for wider types the high 16 bits, where signs and exponents are.
    auto bytes = source.mutable_bytes();
    for (std::int64_t i = 0; i < patterns; ++i) {
      const auto pattern = static_cast<std::uint64_t>(i) << (std::max(width, 16) - 16);
      if (width < 8) {
        const auto shift = static_cast<unsigned>(i * width % 8);
        bytes[static_cast<std::size_t>(i * width / 8)] |= static_cast<std::byte>(pattern << shift);
      } else {
        for (int b = 0; b < width / 8; ++b) {
          bytes[static_cast<std::size_t>(i * width / 8 + b)] =
              static_cast<std::byte>(pattern >> (8 * b) & 0xff);
        }
      }
    }
    for (std::int64_t i = 0; i < patterns; ++i) {
      const std::string text = element_text(source, i);
      ASSERT_TRUE(set_element_text(target, i, text)) << name_of(dtype) << " " << text;
    }
    EXPECT_TRUE(std::ranges::equal(source.bytes(), target.bytes())) << name_of(dtype);
  }
}

TEST(Text, LongConstantsAreBase64AndSharedByHash) {
  Module module;
  auto weights = Tensor::allocate(DType::F32, {100}).value();
  weights.set_element_f64(7, 1.5);
  module.graph.add_constant("w", weights);
  module.graph.add_constant("packed", Tensor::allocate(DType::I4, {3}).value());
  std::string text = print_xir(module);
  EXPECT_NE(text.find("const %w: f32[100] = base64\""), std::string::npos);
  EXPECT_NE(text.find("const %packed: i4[3] = [0, 0, 0]"), std::string::npos);
  round_trip(module);
  EXPECT_NE(print_xir(module, PrintConstants::Elided).find("const %w: f32[100] = ..."), std::string::npos);
  std::string before = content_hash(module);
  module.graph.value(module.graph.find("w")).constant.set_element_f64(8, 1.0);
  EXPECT_NE(content_hash(module), before);
}

TEST(Text, PackedBitsThatNoElementUsesAreKept) {
  Module module;
  auto packed = Tensor::allocate(DType::U4, {3}).value();
  packed.mutable_bytes()[1] = std::byte{0xf1};
  module.graph.add_constant("packed", packed);
  round_trip(module);
}

TEST(Text, ErrorsSayWhereAndWhatWasExpected) {
  const std::pair<std::string, std::string> kCases[] = {
      {"", "line 1, column 1: expected 'xir 1' at the start of the file, found the end of the text"},
      {"xir 2", "line 1, column 5: expected version 1, the only one there is, found '2'"},
      {"xir 1 graph main", "line 1, column 13: expected the graph's name, such as @main, found 'main'"},
      {in_body("%y = Add(%x %x)"), "line 3, column 13: expected ',' or ')' among the operands, found '%x'"},
      {in_body("%y = Add(%z)"), "line 3, column 10: the value %z is not defined in this graph before this"},
      {in_body("%x = Add(%x)"), "line 3, column 1: the value %x is defined twice"},
      {in_body("%y, %y = Add(%x)"), "line 3, column 5: the value %y is defined twice"},
      {in_body("%y: f31[2] = Add(%x)"), "line 3, column 5: expected a type such as f32[2, n], found 'f31'"},
      {in_body("%y: f32[2 = Add(%x)"), "line 3, column 20: expected ']' on the same line"},
      {in_body("%y: f32[n +] = Add(%x)"),
       "line 3, column 9: bad size expression at character 4: expected a size"},
      {in_body("const %c: f32[2] = [1.0]"), "line 3, column 11: this type needs exactly 2 elements"},
      {in_body("const %c: f32[2] = [1.0, 2.0, 3.0]"),
       "line 3, column 11: this type needs exactly 2 elements"},
      {in_body("const %c: f32[99999999999] = [1.0]"),
       "line 3, column 11: this type needs exactly 99999999999 elements"},
      {in_body("const %c: u8[1] = [256]"), "line 3, column 20: expected an element of type u8, found '256'"},
      {in_body("const %c: f32[n] = [1.0]"), "line 3, column 11: the sizes of a constant are numbers"},
      {in_body("const %c: f32[1] = base64\"AA==\""),
       "line 3, column 20: these are 1 bytes, but the type needs 4"},
      {in_body("const %c: f32[100] = ..."),
       "line 3, column 22: the elements of this constant were left out when the text was printed"},
      {in_body("%y = Add(%x) {a = []}"),
       "line 3, column 19: what an empty list holds must be said: ints[], floats[] or strings[]"},
      {in_body("%y = Add(%x) {a = 1, a = 2}"), "line 3, column 22: this attribute is given twice"},
      {in_body("%y = Add(%x) {a = \"b}"), "line 3, column 19: this string has no closing '\"'"},
      {in_body("%y = Add(%x) {a = %x}"),
       "line 3, column 19: expected a value: 1, 1.5, \"text\", a list, tensor, type or graph, found '%x'"},
      {in_body("ü"), "line 3, column 1: unexpected character"},
      {"xir 1\nmodule {symbol n in 5..1}\n", "line 2, column 16: this range is empty or negative"},
  };
  for (const auto& [text, message] : kCases) EXPECT_EQ(message_of(text), message) << text;
}

TEST(Text, NestingIsBounded) {
  std::string types = "%y: ";
  for (int i = 0; i < 10000; ++i) types += "seq<";
  EXPECT_NE(message_of(in_body(types)).find("types are nested deeper than 64"), std::string::npos);

  std::string graphs = "xir 1\ngraph @g() -> () {\n";
  for (int i = 0; i < 10000; ++i) graphs += "If() {then_branch = graph @g() -> () {\n";
  auto refused = parse_xir(graphs);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().error_class, ErrorClass::Limit);
}

TEST(Text, GraphsOutOfOrderPrintInOrder) {
  Module module;
  ValueId x = module.graph.add_input("x", Type::tensor(DType::F32, Shape{2}));
  NodeId second = module.graph.add_node("Neg", {x}, {"y"});
  NodeId first = module.graph.add_node("Abs", {x}, {"h"});
  module.graph.node(second).inputs = {module.graph.output_of(first)};
  module.graph.outputs = {module.graph.output_of(second)};
  Module back = round_trip(module);
  EXPECT_EQ(back.graph.node(NodeId(0)).op, "Abs");
}

}  // namespace
}  // namespace xyntra
