#include <gtest/gtest.h>

#include "frontends/torchscript/archive/pickle.h"

namespace xyntra::torchscript {
namespace {

using Kind = PickleValue::Kind;

Result<Pickle> read(std::string_view after_protocol) {
  static std::string bytes;  // texts are views into it
  bytes = "\x80\x02" + std::string(after_protocol);
  return read_pickle(std::as_bytes(std::span(bytes)));
}

std::string error_of(std::string_view after_protocol) {
  const auto pickle = read(after_protocol);
  return pickle ? "" : pickle.error().message;
}

using namespace std::string_view_literals;

TEST(TorchScriptPickle, ReadsValues) {
  // (None, True, -2, 200, 1.5, "é", [1], {"b": ()})
  const auto whole = read(
      "(N\x88J\xfe\xff\xff\xffK\xc8G\x3f\xf8\0\0\0\0\0\0X\x02\0\0\0\xc3\xa9]K\x01\x61}X\x01\0\0\0b)st."sv);
  ASSERT_TRUE(whole) << whole.error().message;
  const PickleValue& root = (*whole)[whole->root];
  ASSERT_EQ(root.kind, Kind::Tuple);
  ASSERT_EQ(root.items.size(), 8U);
  const auto item = [&](std::size_t i) { return (*whole)[root.items[i]]; };
  EXPECT_EQ(item(0).kind, Kind::None);
  EXPECT_EQ(item(1).integer, 1);
  EXPECT_EQ(item(2).integer, -2);
  EXPECT_EQ(item(3).integer, 200);
  EXPECT_EQ(item(4).real, 1.5);
  EXPECT_EQ(item(5).text, "é");
  EXPECT_EQ((*whole)[item(6).items.at(0)].integer, 1);
  EXPECT_EQ((*whole)[item(7).items.at(0)].text, "b");
}

TEST(TorchScriptPickle, ReadsLongIntegers) {
  const auto value = [](std::string_view bytes) {
    const auto pickle = read(bytes);
    return pickle ? (*pickle)[pickle->root].integer : 999;
  };
  EXPECT_EQ(value("\x8a\0."sv), 0);
  EXPECT_EQ(value("\x8a\x01\xff."sv), -1);
  EXPECT_EQ(value("\x8a\x02\xff\0."sv), 255);
  EXPECT_EQ(value("\x8a\x08\0\0\0\0\0\0\0\x80."sv), INT64_MIN);
  EXPECT_EQ(error_of("\x8a\x09\0\0\0\0\0\0\0\0\x01."sv), "byte 2: an integer of more than 64 bits");
}

TEST(TorchScriptPickle, ReadsObjectsAndTensors) {
  const auto pickle = read(
      "c__torch__.net\nNet\nq\0)\x81}(X\x01\0\0\0wctorch._utils\n_rebuild_tensor_v2\n"
      "((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0"
      "0X\x03\0\0\0cpuK\x04tQK\0(K\x02K\x02t(K\x02K\x01t\x89"
      "ccollections\nOrderedDict\n)RtRu\x62."sv);
  ASSERT_TRUE(pickle) << pickle.error().message;
  const PickleValue& net = (*pickle)[pickle->root];
  ASSERT_EQ(net.kind, Kind::Object);
  EXPECT_EQ(net.text, "__torch__.net");
  EXPECT_EQ(net.name, "Net");
  const PickleValue& state = (*pickle)[net.items.at(0)];
  const PickleValue& tensor = (*pickle)[state.items.at(1)];
  ASSERT_EQ(tensor.kind, Kind::Tensor);
  EXPECT_EQ((*pickle)[tensor.items[0]].kind, Kind::Storage);
  EXPECT_EQ((*pickle)[tensor.items[5]].kind, Kind::Dict);
}

TEST(TorchScriptPickle, KeepsOneValueOne) {
  const auto pickle = read("]q\0(h\0h\0t."sv);  // l = []; (l, l), with l below it on the stack
  EXPECT_FALSE(pickle);
  const auto pair = read("(]q\0h\0t."sv);
  ASSERT_TRUE(pair) << pair.error().message;
  const PickleValue& root = (*pair)[pair->root];
  EXPECT_EQ(root.items.at(0), root.items.at(1));
}

// Whatever Python has beside what torch writes is named by its byte, and nothing happens.
TEST(TorchScriptPickle, RefusesEveryOtherOpcode) {
  const std::string_view allowed = "NJKMGXc()t]ae}suqrhjQRb.\x85\x86\x87\x88\x89\x8a\x81"sv;
  int refused = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const char opcode = static_cast<char>(byte);
    if (allowed.find(opcode) != std::string_view::npos) continue;
    const auto pickle = read(std::string("NNN") + opcode + std::string(64, '\n'));
    ASSERT_FALSE(pickle);
    EXPECT_EQ(pickle.error().error_class, ErrorClass::Unsupported);
    EXPECT_EQ(pickle.error().message, "byte 5: opcode " + std::to_string(byte) +
                                          " is none that torch.jit.save writes; nothing is executed");
    ++refused;
  }
  EXPECT_EQ(refused, 256 - 31);
}

TEST(TorchScriptPickle, CallsNothing) {
  EXPECT_EQ(
      error_of("cos\nsystem\nX\x02\0\0\0ls\x85R."sv),
      "byte 21: the pickle calls os.system: nothing is executed, and it stands for no value that is known");
  EXPECT_EQ(error_of("cos\nsystem\n)\x81."sv),
            "byte 14: the pickle makes an object of os.system: only classes of the model itself (__torch__) "
            "are known");
  EXPECT_EQ(error_of("cbuiltins\neval\nX\x01\0\0\0x\x85R."sv),
            "byte 24: the pickle calls builtins.eval: nothing is executed, and it stands for no value that "
            "is known");
  EXPECT_EQ(error_of("K\x01)R."sv), "byte 5: an integer is called");
}

TEST(TorchScriptPickle, RefusesWhatIsMalformed) {
  EXPECT_EQ(error_of(""sv), "byte 2: the pickle ends without STOP");
  EXPECT_EQ(error_of("K"sv), "byte 2: the pickle is cut short");
  EXPECT_EQ(error_of("X\xff\xff\xff\xff."sv), "byte 2: the pickle is cut short");
  EXPECT_EQ(error_of("NN."sv), "byte 4: STOP with more than one value on the stack");
  EXPECT_EQ(error_of("N.N"sv), "byte 3: bytes follow the end of the pickle");
  EXPECT_EQ(error_of("t."sv), "byte 2: TUPLE with too few values on the stack");
  EXPECT_EQ(error_of("(\x85."sv), "byte 3: TUPLE1 with too few values on the stack");
  EXPECT_EQ(error_of("Na."sv), "byte 3: APPEND with too few values on the stack");
  EXPECT_EQ(error_of("NNa."sv), "byte 4: items for None");
  EXPECT_EQ(error_of("}(Nu."sv), "byte 5: a key without a value");
  EXPECT_EQ(error_of("}(K\x01NK\x01Nu."sv), "byte 7: a key that the dict has already");
  EXPECT_EQ(error_of("h\x05."sv), "byte 2: place 5 of the memo, which is empty");
  EXPECT_EQ(error_of("Nr\xff\xff\xff\xff."sv), "byte 3: place 4294967295 of the memo before those below it");
  EXPECT_EQ(error_of("]q\0h\0a."sv), "byte 2: a value that holds itself");
  EXPECT_EQ(error_of("X\x01\0\0\0\xff."sv), "byte 2: a string that is not UTF-8");
  EXPECT_EQ(read_pickle(std::as_bytes(std::span("PK", 2))).error().message, "byte 0: not a pickle");
  EXPECT_EQ(read_pickle(std::as_bytes(std::span("\x80\x05N.", 4))).error().message,
            "byte 0: pickle protocol 5, where torch writes 2");
}

}  // namespace
}  // namespace xyntra::torchscript
