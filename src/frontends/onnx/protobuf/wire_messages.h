// Readers of the messages that several others hold. Internal to this folder; they throw WireError.
#pragma once

#include "frontends/onnx/protobuf/message_reader.h"
#include "frontends/onnx/protobuf/wire.h"

namespace xyntra::onnx {

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

StringEntry read_entry(MessageReader reader);
TensorProto read_tensor(MessageReader reader);
SparseTensorProto read_sparse_tensor(MessageReader reader);
TypeProto read_type(MessageReader reader);
ValueInfo read_value_info(MessageReader reader);
Graph read_graph(MessageReader reader);

}  // namespace xyntra::onnx
