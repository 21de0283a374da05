#include <gtest/gtest.h>

#include <fstream>

#include "frontends/onnx/protobuf/wire.h"
#include "frontends/onnx/tensor.h"
#include "onnx_bytes.h"

namespace xyntra::onnx {
namespace {

using namespace onnx_bytes;

std::string error_of(const std::string& file, const WireLimits& limits = {}) {
  const auto parsed = parse_model(view(file), limits);
  return parsed ? "" : parsed.error().message;
}

TEST(OnnxWire, ReadsAModel) {
  const std::string file =
      model(input("x") + node("Softmax", {"x"}, {"y"}, integer("axis", -1), "soft") + output("y"));
  const auto parsed = parse_model(view(file));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->ir_version, 8);
  ASSERT_EQ(parsed->graph->nodes.size(), 1U);
  const Node& soft = parsed->graph->nodes[0];
  EXPECT_EQ(soft.name, "soft");
  EXPECT_EQ(soft.attributes[0].type, Attribute::Type::Int);
  EXPECT_EQ(soft.attributes[0].i, -1);
  EXPECT_EQ(parsed->graph->inputs[0].type->dims[1].value, 3);
}

TEST(OnnxWire, TakesRepeatedNumbersPackedAndNot) {
  const std::string unpacked = attribute("a", 7, number(8, 1) + number(8, 300));
  const std::string packed = attribute("a", 7, bytes(8, varint(1) + varint(300)));
  for (const std::string& one : {unpacked, packed}) {
    const std::string file = model(node("Op", {}, {}, one));
    const auto parsed = parse_model(view(file));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->graph->nodes[0].attributes[0].ints, (std::vector<std::int64_t>{1, 300}));
  }
}

TEST(OnnxWire, LastScalarWinsAndUnknownFieldsAreSkipped) {
  const std::string file = number(1, 3) + bytes(99, "whatever") + number(98, 5) + number(1, 9);
  EXPECT_EQ(parse_model(view(file))->ir_version, 9);
}

TEST(OnnxWire, RefusesAMessageGivenTwice) {
  EXPECT_NE(error_of(model("") + bytes(7, "")).find("two graphs"), std::string::npos);
}

TEST(OnnxWire, EveryTruncationIsAnErrorOrASmallerModel) {
  const std::string file = model(input("x") + initializer("w", 1, {1}, bytes(9, float_bits(1))) +
                                 node("Add", {"x", "w"}, {"y"}, reals("r", {1, 2})) + output("y"));
  for (std::size_t size = 0; size < file.size(); ++size) {
    const auto parsed = parse_model(view(std::string_view(file).substr(0, size)));
    EXPECT_TRUE(parsed || parsed.error().error_class == ErrorClass::BadModel) << size;
  }
}

TEST(OnnxWire, CountsNodesFunctionsAndNesting) {
  WireLimits limits;
  limits.max_nodes = 2;
  EXPECT_NE(error_of(model(node("A", {}, {}) + node("A", {}, {}) + node("A", {}, {})), limits)
                .find("more than 2 nodes"),
            std::string::npos);
  limits.max_functions = 1;
  EXPECT_NE(error_of(model("", 21, bytes(25, "") + bytes(25, "")), limits).find("functions"),
            std::string::npos);
  limits.max_nesting = 2;
  const std::string inner = node("If", {}, {}, graph("a", node("If", {}, {}, graph("b", ""))));
  EXPECT_NE(error_of(model(inner), limits).find("nesting"), std::string::npos);
}

TEST(OnnxWire, MemoryIsBoundedByTheFile) {
  std::string many;
  for (int i = 0; i < 200'000; ++i) many += bytes(13, "");  // empty value_infos: 2 bytes each in the file
  WireLimits limits;
  limits.max_bytes = 1'000'000;
  const auto parsed = parse_model(view(model(many)), limits);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().error_class, ErrorClass::Limit);
}

TEST(OnnxWire, AttributesOfTwoKindsAreMarked) {
  const std::string file = model(node("Op", {}, {}, attribute("a", 2, number(3, 1) + bytes(4, "s"))));
  EXPECT_STREQ(parse_model(view(file))->graph->nodes[0].attributes[0].stray_field, "s");
}

Result<Tensor> read(const std::string& file) {
  const auto proto = parse_tensor(view(file));
  if (!proto) return failure(proto.error());
  TensorReader reader(view(file));
  auto tensor = reader.read(*proto);
  if (tensor)
    return Tensor::from<std::byte>(tensor->dtype(), tensor->dims(), tensor->bytes());  // outlives `file`
  return tensor;
}

TEST(OnnxTensor, ReadsTypedFields) {
  EXPECT_EQ(read(tensor("t", 1, {2}, bytes(4, float_bits(1.5) + float_bits(-2))))->element_as_f64(1), -2);
  EXPECT_EQ(
      read(tensor("t", 7, {2}, bytes(7, varint(5) + varint(static_cast<std::uint64_t>(-6)))))->to_integers(),
      (std::vector<std::int64_t>{5, -6}));
  EXPECT_EQ(read(tensor("t", 3, {1}, number(5, -3)))->element_as_i64(0), -3);
  EXPECT_EQ(read(tensor("t", 10, {1}, number(5, 0x3c00)))->element_as_f64(0), 1.0);       // f16
  EXPECT_EQ(read(tensor("t", 16, {1}, number(5, 0x3f80)))->element_as_f64(0), 1.0);       // bf16
  EXPECT_EQ(read(tensor("t", 9, {2}, bytes(5, varint(1) + varint(0))))->element_as_i64(0), 1);
  EXPECT_EQ(read(tensor("t", 12, {1}, number(11, 7)))->element_as_i64(0), 7);  // u32 in uint64_data
  EXPECT_EQ(read(tensor("t", 13, {1}, number(11, 8)))->element_as_i64(0), 8);
}

TEST(OnnxTensor, ReadsPackedNibbles) {
  EXPECT_EQ(read(tensor("t", 22, {3}, bytes(5, varint(0x21) + varint(0x0f))))->to_integers(),
            (std::vector<std::int64_t>{1, 2, -1}));
}

TEST(OnnxTensor, RefusesTheWrongAmount) {
  EXPECT_NE(read(tensor("t", 1, {2}, bytes(9, "1234567"))).error().message.find("needs 8 bytes"),
            std::string::npos);
  EXPECT_NE(read(tensor("t", 1, {2}, bytes(4, float_bits(1)))).error().message.find("needs 2 entries"),
            std::string::npos);
  EXPECT_EQ(read(tensor("t", 1, {1LL << 40, 1LL << 40}, bytes(9, ""))).error().error_class,
            ErrorClass::Limit);
}

TEST(OnnxTensor, EmptyTensorsNeedNoData) { EXPECT_EQ(read(tensor("t", 1, {0, 3}, ""))->count(), 0); }

TEST(OnnxTensor, DecodedElementsAreCounted) {
  std::string zeros(1000, '\0');
  const std::string file = tensor("t", 7, {1000}, bytes(7, zeros));  // one byte in the file, eight in memory
  TensorReader reader(view(file), nullptr, 6000);
  const auto read_tensor = reader.read(*parse_tensor(view(file)));
  ASSERT_FALSE(read_tensor);
  EXPECT_EQ(read_tensor.error().error_class, ErrorClass::Limit);
}

TEST(OnnxTensor, ReadsExternalDataBeneathTheFolder) {
  const std::string folder = ::testing::TempDir() + "xyntra_external";
  ASSERT_EQ(std::system(("mkdir -p " + folder).c_str()), 0);
  std::ofstream(folder + "/w.bin", std::ios::binary) << "----" << float_bits(4) << float_bits(5);
  const auto entry = [](const char* key, const char* text) {
    return bytes(13, bytes(1, key) + bytes(2, text));
  };
  std::ofstream(folder + "/t.pb", std::ios::binary)
      << tensor("t", 1, {2}, number(14, 1) + entry("location", "w.bin") + entry("offset", "4"));
  const auto datum = read_datum_file(folder + "/t.pb");
  ASSERT_TRUE(datum) << datum.error().message;
  EXPECT_EQ(datum->tensor.element_as_f64(1), 5);
}

TEST(OnnxTensor, ReadsSequencesAndOptionals) {
  const std::string one = tensor("", 7, {1}, number(7, 1));
  const std::string sequence = bytes(3, one) + bytes(3, one);
  const auto parsed = parse_datum(view(sequence), DatumProto::Kind::Sequence);
  ASSERT_TRUE(parsed);
  TensorReader reader(view(sequence));
  EXPECT_EQ(to_datum(*parsed, reader)->items.size(), 2U);
  const std::string optional = bytes(5, sequence);
  const auto nested = parse_datum(view(optional), DatumProto::Kind::Optional);
  ASSERT_TRUE(nested);
  EXPECT_EQ(to_datum(*nested, reader)->items.at(0).items.size(), 2U);
  EXPECT_TRUE(to_datum(*parse_datum({}, DatumProto::Kind::Optional), reader)->items.empty());
}

}  // namespace
}  // namespace xyntra::onnx
