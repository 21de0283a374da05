// The values that a pickle of torch.jit.save describes, read without running anything: numbers, texts, lists, tensors
// by the storage they lie in, and objects of the model's own classes with their state.
//
// A pickle is a program for a stack machine that may call any function of Python. Here it may use the opcodes of
// pickle_opcodes.def, name classes of the model (`__torch__.…`) and call the few functions of pickle_functions.def,
// which stand for a value each; everything else is an error with the offset of its byte. Values name one another by
// ids, and a list that two others hold is one value, as it is in Python.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/ids.h"
#include "support/result.h"

namespace xyntra::torchscript {

using PickleId = Id<struct PickleTag>;

struct PickleValue {
  enum class Kind : std::uint8_t {
    None,
    Bool,  // integer
    Integer,  // integer
    Real,  // real
    Text,  // text
    Tuple,  // items
    List,  // items
    Dict,  // items: key, value, key, value, …; keys are texts and integers, none twice
    Global,  // text and name: module and what it has, such as "torch" "FloatStorage"
    Storage,  // items[0]: the tuple that names it
    Tensor,  // items: the arguments of torch._utils._rebuild_tensor_v2
    Device,  // items: "cuda", 0
    Object,  // text and name: its class; items: none, or its state
  };
  Kind kind = Kind::None;
  std::int64_t integer = 0;
  double real = 0;
  std::string_view text, name;
  std::vector<PickleId> items;
  std::size_t offset = 0;  // of the opcode that made it
};

const char* name_of(PickleValue::Kind kind);  // "an integer"

struct Pickle {
  std::vector<PickleValue> values;
  PickleId root;
  const PickleValue& operator[](PickleId id) const { return values.at(id.index); }
};

// Texts are views into the bytes. BadModel or Unsupported errors `byte 17: …`; no value holds itself. Memory and time are within a factor of
// the size of the bytes.
Result<Pickle> read_pickle(std::span<const std::byte> bytes);

}  // namespace xyntra::torchscript
