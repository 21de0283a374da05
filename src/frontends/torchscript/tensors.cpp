#include "frontends/torchscript/tensors.h"

#include "frontends/aten/scalar_types.h"
#include "frontends/strided_tensor.h"

namespace xyntra::torchscript {

namespace {

constexpr std::size_t kMostRank = 32;

}  // namespace

Result<Tensor> TensorReader::read(PickleId id) {
  if (const auto known = made_.find(id); known != made_.end()) return known->second;
  const PickleValue& value = pickle_[id];
  auto tensor = make(value);
  if (!tensor) {
    tensor.error().message = "tensor at byte " + std::to_string(value.offset) + ": " + tensor.error().message;
    return tensor;
  }
  made_.emplace(id, *tensor);
  return tensor;
}

Result<Dims> TensorReader::integers(PickleId id, const char* what) const {
  const PickleValue& tuple = pickle_[id];
  if (tuple.kind != PickleValue::Kind::Tuple || tuple.items.size() > kMostRank)
    return bad_model(std::string(what) + " are no tuple of at most " + std::to_string(kMostRank));
  Dims values;
  for (const PickleId item : tuple.items) {
    const PickleValue& value = pickle_[item];
    if (value.kind != PickleValue::Kind::Integer)
      return bad_model(std::string(what) + " are no whole numbers");
    values.push_back(value.integer);
  }
  return values;
}

Result<Tensor> TensorReader::make(const PickleValue& value) {
  using Kind = PickleValue::Kind;
  if (value.kind != Kind::Tensor)
    return bad_model(std::string(name_of(value.kind)) + " where a tensor should be");
  const PickleValue& storage = pickle_[value.items[0]];
  if (storage.kind != Kind::Storage) return bad_model("it has no storage");
  // ("storage", torch.FloatStorage, "0", "cpu", 64)
  const PickleValue& names = pickle_[storage.items[0]];
  const auto part = [&](std::size_t i) -> const PickleValue& { return pickle_[names.items[i]]; };
  if (names.items.size() < 5 || part(0).text != "storage" || part(1).kind != Kind::Global ||
      part(2).kind != Kind::Text || part(4).kind != Kind::Integer)
    return bad_model("its storage is named in an unknown way");
  const auto dtype = aten::dtype_of_storage_class(part(1).name);
  if (part(1).text != "torch" || !dtype) {
    return unsupported("its storage is a " + std::string(part(1).text) + "." + std::string(part(1).name));
  }
  const PickleValue& offset = pickle_[value.items[1]];
  if (offset.kind != Kind::Integer) return bad_model("its offset is no whole number");
  StridedView view{.dtype = *dtype, .sizes = {}, .strides = {}, .offset = offset.integer};
  XYNTRA_TRY(view.sizes, integers(value.items[2], "its sizes"));
  XYNTRA_TRY(view.strides, integers(value.items[3], "its strides"));
  XYNTRA_TRY(const StoredBytes stored, storage_(part(2).text));
  const std::int64_t held = static_cast<std::int64_t>(stored.bytes.size()) / (bits_of(*dtype) / 8);
  if (part(4).integer != held) {
    return bad_model("its storage has " + std::to_string(held) + " elements, not " +
                     std::to_string(part(4).integer));
  }
  XYNTRA_TRY(Tensor tensor, strided_tensor(view, stored.bytes, stored.owner));
  const auto own = tensor.bytes();
  const bool borrowed = own.empty() || (!stored.bytes.empty() && &own.front() >= &stored.bytes.front() &&
                                        &own.front() <= &stored.bytes.back());
  if (!borrowed) copied_bytes_ -= static_cast<std::int64_t>(own.size());
  if (copied_bytes_ < 0)
    return limit_error("tensors that show their storages more than once take too much memory");
  return tensor;
}

}  // namespace xyntra::torchscript
