// TensorProto → Tensor. Raw and external data are borrowed from their mapped files; elements in typed
// fields are decoded into memory, which is counted against a cap that grows with the file.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "frontends/onnx/protobuf/wire.h"
#include "support/files/file.h"
#include "types/tensor.h"

namespace xyntra::onnx {

class TensorReader {
 public:
  // `file` holds the bytes all protos view. External data is looked for beneath `folder` only.
  TensorReader(const std::shared_ptr<const MappedFile>& file, std::string folder,
               std::int64_t max_decoded_bytes = 64'000'000);  // plus the size of the file
  // The same over bytes in memory, which `owner` keeps, or which must outlive the tensors; external data is refused.
  explicit TensorReader(std::span<const std::byte> bytes, std::shared_ptr<const void> owner = nullptr,
                        std::int64_t max_decoded_bytes = 64'000'000);

  Result<Tensor> read(const TensorProto& proto);
  Result<Tensor> read_sparse(const SparseTensorProto& proto);  // as a dense tensor

 private:
  Result<Tensor> read_strings(const TensorProto& proto);
  Result<Tensor> read_external(const TensorProto& proto, DType dtype);
  Result<Tensor> decode(const TensorProto& proto, DType dtype);
  Result<Tensor> allocate(DType dtype, const Dims& dims);
  Result<std::shared_ptr<const MappedFile>> external_file(const std::string& location);

  std::shared_ptr<const void> owner_;
  std::string folder_;
  std::int64_t decoded_bytes_left_;
  std::map<std::string, std::shared_ptr<const MappedFile>> external_files_;
};

Result<Datum> to_datum(const DatumProto& proto, TensorReader& tensors);

// One value in a file of its own: the input_0.pb of ONNX's tests.
Result<Datum> read_datum_file(const std::string& path, DatumProto::Kind kind = DatumProto::Kind::Tensor);

}  // namespace xyntra::onnx
