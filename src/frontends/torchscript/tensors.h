// Tensors of a TorchScript archive: parts of the storages that lie in it as files, in the mapped file itself where
// their elements lie one after another.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "frontends/torchscript/archive/pickle.h"
#include "types/tensor.h"

namespace xyntra::torchscript {

// A storage as it lies in the archive.
struct StoredBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

class TensorReader {
 public:
  // `storage` is asked for a storage by its key; `copied_bytes` may be spent on tensors whose elements do not lie one after
  // another.
  TensorReader(const Pickle& pickle, std::function<Result<StoredBytes>(std::string_view key)> storage,
               std::int64_t& copied_bytes)
      : pickle_(pickle), storage_(std::move(storage)), copied_bytes_(copied_bytes) {}

  // Of a value of kind Tensor; the same one, sharing memory, whenever it is asked for.
  Result<Tensor> read(PickleId id);

 private:
  Result<Tensor> make(const PickleValue& value);
  Result<Dims> integers(PickleId id, const char* what) const;

  const Pickle& pickle_;
  std::function<Result<StoredBytes>(std::string_view)> storage_;
  std::int64_t& copied_bytes_;
  std::map<PickleId, Tensor> made_;
};

}  // namespace xyntra::torchscript
