// Field numbers of ONNX's messages, as in onnx.proto.
#pragma once

#include <protozero/types.hpp>

namespace xyntra::onnx_field {

using Tag = protozero::pbf_tag_type;

namespace model {
inline constexpr Tag kIrVersion = 1, kProducerName = 2, kProducerVersion = 3, kDomain = 4, kModelVersion = 5,
                     kDocString = 6, kGraph = 7, kOpsetImport = 8, kMetadata = 14, kFunctions = 25;
}
namespace opset {
inline constexpr Tag kDomain = 1, kVersion = 2;
}
namespace entry {
inline constexpr Tag kKey = 1, kValue = 2;
}
namespace graph {
inline constexpr Tag kNode = 1, kName = 2, kInitializer = 5, kDocString = 10, kInput = 11, kOutput = 12,
                     kValueInfo = 13;
}
namespace function {
inline constexpr Tag kName = 1, kInput = 4, kOutput = 5, kNode = 7, kDocString = 8, kOpsetImport = 9,
                     kDomain = 10;
}
namespace node {
inline constexpr Tag kInput = 1, kOutput = 2, kName = 3, kOpType = 4, kAttribute = 5, kDomain = 7;
}
namespace attribute {
inline constexpr Tag kName = 1, kFloat = 2, kInt = 3, kString = 4, kTensor = 5, kGraph = 6, kFloats = 7,
                     kInts = 8, kStrings = 9, kTypeProto = 14, kType = 20;
enum Type {
  Float = 1,
  Int = 2,
  String = 3,
  Tensor = 4,
  Graph = 5,
  Floats = 6,
  Ints = 7,
  Strings = 8,
  TypeProto = 13
};
}  // namespace attribute
namespace tensor {
inline constexpr Tag kDims = 1, kDataType = 2, kStringData = 6, kName = 8, kRawData = 9, kExternalData = 13,
                     kDataLocation = 14;
inline constexpr int kExternal = 1;
}  // namespace tensor
namespace value_info {
inline constexpr Tag kName = 1, kType = 2;
}
namespace type {
inline constexpr Tag kTensor = 1, kSequence = 4, kOptional = 9;
inline constexpr Tag kElementType = 1,
                     kShape = 2;  // of a tensor; the first also of a sequence and an optional
inline constexpr Tag kDim = 1, kDimValue = 1, kDimParam = 2;
}  // namespace type

}  // namespace xyntra::onnx_field
