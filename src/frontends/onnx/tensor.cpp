#include "frontends/onnx/tensor.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "frontends/onnx/places.h"
#include "frontends/onnx/protobuf/wire_messages.h"
#include "support/text/text.h"

namespace xyntra::onnx {

namespace {

enum class Encoding : std::uint8_t { Varint, Fixed32, Fixed64 };

// Where ONNX puts the elements of a dtype when they are not raw bytes. Narrow types share int32_data, one
// entry for each element, or for each byte where elements are packed into bytes.
struct TypedField {
  std::uint32_t field;
  const char* name;
  Encoding encoding;
  std::size_t entry_bytes;
};

TypedField typed_field(DType dtype) {
  switch (dtype) {
    case DType::F32: return {4, "float_data", Encoding::Fixed32, 4};
    case DType::F64: return {10, "double_data", Encoding::Fixed64, 8};
    case DType::I64: return {7, "int64_data", Encoding::Varint, 8};
    case DType::U64: return {11, "uint64_data", Encoding::Varint, 8};
    case DType::U32: return {11, "uint64_data", Encoding::Varint, 4};
    default:
      return {5, "int32_data", Encoding::Varint, static_cast<std::size_t>(std::max(bits_of(dtype), 8)) / 8};
  }
}

std::string the_tensor(const TensorProto& proto) {
  return proto.name.empty() ? "a tensor" : "tensor " + in_quotes(proto.name);
}

Result<DType> dtype_of(const TensorProto& proto) {
  if (const auto dtype = dtype_of_onnx_code(proto.data_type)) return *dtype;
  switch (proto.data_type) {
    case 0: return bad_model(the_tensor(proto) + " has no element type");
    case 14:
    case 15: return unsupported(the_tensor(proto) + " holds complex numbers");
    default:
      return bad_model(the_tensor(proto) + " has unknown element type " + std::to_string(proto.data_type));
  }
}

// Calls `sink` with the bits of each entry of the typed field, packed or not.
template <class Sink>
Status for_each_entry(const TensorProto& proto, const TypedField& typed, Sink sink) {
  ParseState state({}, 0);
  MessageReader reader(state, proto.message, proto.offset, "TensorProto");
  auto walked = parse_guarded(state, [&] {
    while (reader.next()) {
      if (reader.field() != typed.field) {
        reader.skip();
        continue;
      }
      switch (typed.encoding) {
        case Encoding::Varint:
          reader.integers([&](std::int64_t value) { sink(static_cast<std::uint64_t>(value)); });
          break;
        case Encoding::Fixed32: reader.floats([&](std::uint32_t bits) { sink(std::uint64_t{bits}); }); break;
        case Encoding::Fixed64: reader.doubles([&](std::uint64_t bits) { sink(bits); }); break;
      }
    }
    return true;
  });
  if (!walked) return failure(std::move(walked).error());
  return {};
}

// Does the value fit the entry, read as signed or as unsigned?
bool fits(std::uint64_t value, const TypedField& typed) {
  if (typed.encoding != Encoding::Varint || typed.entry_bytes == 8) return true;
  const auto number = static_cast<std::int64_t>(value);
  const auto bits = static_cast<int>(8 * typed.entry_bytes);
  return number >= -(std::int64_t{1} << (bits - 1)) && number < (std::int64_t{1} << bits);
}

Status check_booleans(const TensorProto& proto, const Tensor& tensor) {
  if (tensor.dtype() != DType::Bool) return {};
  const auto is_boolean = [](std::byte byte) { return byte <= std::byte{1}; };
  if (std::ranges::all_of(tensor.bytes(), is_boolean)) return {};
  return bad_model(the_tensor(proto) + " is boolean but holds a byte other than 0 and 1");
}

Result<std::int64_t> size_of(const TensorProto& proto, DType dtype) {
  auto size = byte_size(dtype, proto.dims);
  if (!size) size.error().message = the_tensor(proto) + ": " + size.error().message;
  return size;
}

struct ExternalPlace {
  std::string location;
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length;
};

Result<std::uint64_t> parse_size(const TensorProto& proto, const StringEntry& entry) {
  if (const auto value = parse_u64(entry.value)) return *value;
  return bad_model(the_tensor(proto) + " has external " + std::string(entry.key) + " " +
                   in_quotes(entry.value) + ", which is not a size");
}

Result<ExternalPlace> external_place(const TensorProto& proto) {
  ExternalPlace place;
  for (const StringEntry& entry : proto.external_data) {
    if (entry.key == "location") {
      place.location = std::string(entry.value);
    } else if (entry.key == "offset") {
      XYNTRA_TRY(place.offset, parse_size(proto, entry));
    } else if (entry.key == "length") {
      XYNTRA_TRY(place.length, parse_size(proto, entry));
    }
  }
  if (place.location.empty()) return bad_model(the_tensor(proto) + " is external but names no file");
  return place;
}

std::string elements_text(const Dims& dims) {
  std::string text = "[";
  for (const std::int64_t dim : dims) text += (text.size() > 1 ? ", " : "") + std::to_string(dim);
  return text + "]";
}

}  // namespace

TensorReader::TensorReader(const std::shared_ptr<const MappedFile>& file, std::string folder,
                           std::int64_t max_decoded_bytes)
    : owner_(file),
      folder_(std::move(folder)),
      decoded_bytes_left_(max_decoded_bytes + static_cast<std::int64_t>(file->bytes().size())) {}

TensorReader::TensorReader(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                           std::int64_t max_decoded_bytes)
    : owner_(std::move(owner)),
      decoded_bytes_left_(max_decoded_bytes + static_cast<std::int64_t>(bytes.size())) {}

Result<Tensor> TensorReader::read(const TensorProto& proto) {
  XYNTRA_TRY(const DType dtype, dtype_of(proto));
  if (proto.has_segment) return unsupported(the_tensor(proto) + " is split into segments");
  if (std::ranges::any_of(proto.dims, [](std::int64_t dim) { return dim < 0; })) {
    return bad_model(the_tensor(proto) + " has the negative size " + elements_text(proto.dims));
  }
  if (is_string(dtype)) return read_strings(proto);
  if (proto.location == TensorProto::Location::External) return read_external(proto, dtype);
  const bool raw = proto.raw_data && (proto.data_fields == 0 || !proto.raw_data->empty());
  if (raw && proto.data_fields != 0) return bad_model(the_tensor(proto) + " has both raw and typed data");
  if (!raw) return decode(proto, dtype);

  XYNTRA_TRY(const std::int64_t size, size_of(proto, dtype));
  if (proto.raw_data->size() != static_cast<std::size_t>(size)) {
    return bad_model(the_tensor(proto) + " of " + std::string(name_of(dtype)) + elements_text(proto.dims) +
                     " needs " + std::to_string(size) + " bytes of raw data, has " +
                     std::to_string(proto.raw_data->size()));
  }
  XYNTRA_TRY(Tensor tensor,
             Tensor::borrow(dtype, proto.dims, std::as_bytes(std::span(*proto.raw_data)), owner_));
  XYNTRA_CHECK_OK(check_booleans(proto, tensor));
  return tensor;
}

// Strings stand in a field of their own: there is no raw form of them.
Result<Tensor> TensorReader::read_strings(const TensorProto& proto) {
  constexpr std::uint32_t kStringData = 6;
  const bool elsewhere = proto.location == TensorProto::Location::External ||
                         (proto.raw_data && !proto.raw_data->empty()) ||
                         (proto.data_fields & ~(1U << kStringData)) != 0;
  if (elsewhere)
    return bad_model(the_tensor(proto) + " of string has its elements elsewhere than in string_data");
  XYNTRA_TRY(const std::int64_t size, size_of(proto, DType::String));
  const std::int64_t needed = size / static_cast<std::int64_t>(sizeof(std::uint64_t));
  std::int64_t bytes = 0;
  std::vector<std::string_view> elements;
  ParseState state({}, 0);
  MessageReader reader(state, proto.message, proto.offset, "TensorProto");
  auto walked = parse_guarded(state, [&] {
    while (reader.next()) {
      if (reader.field() != kStringData) {
        reader.skip();
        continue;
      }
      const std::string_view element = reader.bytes();
      bytes += static_cast<std::int64_t>(sizeof(std::uint64_t) + sizeof(std::string_view) + element.size());
      if (bytes <= decoded_bytes_left_) elements.push_back(element);
    }
    return true;
  });
  if (!walked) return failure(std::move(walked).error());
  if (bytes > decoded_bytes_left_)
    return limit_error("decoding its tensors takes too much memory for a file of this size");
  if (std::ssize(elements) != needed) {
    return bad_model(the_tensor(proto) + " of string" + elements_text(proto.dims) + " needs " +
                     std::to_string(needed) + " entries of string_data, has " +
                     std::to_string(elements.size()));
  }
  decoded_bytes_left_ -= bytes;
  auto tensor = Tensor::of_strings(proto.dims, elements);
  if (!tensor) tensor.error().message = the_tensor(proto) + ": " + tensor.error().message;
  return tensor;
}

Result<Tensor> TensorReader::read_external(const TensorProto& proto, DType dtype) {
  if ((proto.raw_data && !proto.raw_data->empty()) || proto.data_fields != 0) {
    return bad_model(the_tensor(proto) + " has both external data and data of its own");
  }
  XYNTRA_TRY(const ExternalPlace place, external_place(proto));
  XYNTRA_TRY(const std::int64_t signed_size, size_of(proto, dtype));
  const auto size = static_cast<std::uint64_t>(signed_size);
  if (place.length && *place.length != size) {
    return bad_model(the_tensor(proto) + " of " + std::string(name_of(dtype)) + elements_text(proto.dims) +
                     " needs " + std::to_string(size) + " bytes, its external length is " +
                     std::to_string(*place.length));
  }
  auto opened = external_file(place.location);
  if (!opened) {
    opened.error().message = the_tensor(proto) + " is external: " + opened.error().message;
    return failure(std::move(opened).error());
  }
  const auto& file = *opened;
  const auto part = file->part(place.offset, size);
  if (!part) {
    return bad_model(the_tensor(proto) + " needs " + std::to_string(size) + " bytes at " +
                     std::to_string(place.offset) + " of external file " + in_quotes(place.location) +
                     ", which has " + std::to_string(file->bytes().size()));
  }
  XYNTRA_TRY(Tensor tensor, Tensor::borrow(dtype, proto.dims, *part, file));
  XYNTRA_CHECK_OK(check_booleans(proto, tensor));
  return tensor;
}

Result<std::shared_ptr<const MappedFile>> TensorReader::external_file(const std::string& location) {
  if (const auto known = external_files_.find(location); known != external_files_.end()) return known->second;
  if (folder_.empty()) return unsupported("external data, in a model that is not a file");
  XYNTRA_TRY(auto file, MappedFile::open_beneath(folder_, location));
  external_files_.emplace(location, file);
  return file;
}

Result<Tensor> TensorReader::allocate(DType dtype, const Dims& dims) {
  XYNTRA_TRY(const std::int64_t size, byte_size(dtype, dims));
  if (size > decoded_bytes_left_) {
    return limit_error("decoding its tensors takes too much memory for a file of this size");
  }
  decoded_bytes_left_ -= size;
  return Tensor::allocate(dtype, dims);
}

Result<Tensor> TensorReader::decode(const TensorProto& proto, DType dtype) {
  const TypedField typed = typed_field(dtype);
  if ((proto.data_fields & ~(1U << typed.field)) != 0) {
    return bad_model(the_tensor(proto) + " of " + std::string(name_of(dtype)) +
                     " has its elements elsewhere than in " + typed.name);
  }
  std::uint64_t found = 0;
  bool all_fit = true;
  XYNTRA_CHECK_OK(for_each_entry(proto, typed, [&](std::uint64_t value) {
    ++found;
    all_fit = all_fit && fits(value, typed);
  }));
  XYNTRA_TRY(const std::int64_t size, size_of(proto, dtype));
  const std::uint64_t needed = static_cast<std::uint64_t>(size) / typed.entry_bytes;
  if (found != needed) {
    return bad_model(the_tensor(proto) + " of " + std::string(name_of(dtype)) + elements_text(proto.dims) +
                     " needs " + std::to_string(needed) + " entries of " + typed.name + ", has " +
                     std::to_string(found));
  }
  if (!all_fit) {
    return bad_model(the_tensor(proto) + " has an entry that does not fit " + std::string(name_of(dtype)));
  }
  XYNTRA_TRY(Tensor tensor, allocate(dtype, proto.dims));
  std::span<std::byte> rest = tensor.mutable_bytes();
  XYNTRA_CHECK_OK(for_each_entry(proto, typed, [&](std::uint64_t value) {
    std::memcpy(rest.data(), &value, typed.entry_bytes);
    rest = rest.subspan(typed.entry_bytes);
  }));
  XYNTRA_CHECK_OK(check_booleans(proto, tensor));
  return tensor;
}

Result<Tensor> TensorReader::read_sparse(const SparseTensorProto& proto) {
  XYNTRA_TRY(const Tensor values, read(proto.values));
  XYNTRA_TRY(const Tensor indices, read(proto.indices));
  const std::string what = "sparse " + the_tensor(proto.values);
  if (values.rank() != 1 || indices.dtype() != DType::I64) return bad_model(what + " is not well formed");
  if (is_string(values.dtype())) return unsupported(what + " holds strings");
  if (bits_of(values.dtype()) < 8) return unsupported(what + " has elements narrower than a byte");
  if (std::ranges::any_of(proto.dims, [](std::int64_t dim) { return dim < 0; })) {
    return bad_model(what + " has the negative size " + elements_text(proto.dims));
  }
  const auto rank = static_cast<std::int64_t>(proto.dims.size());
  const Dims linear{values.count()};
  const Dims coordinates{values.count(), rank};
  if (indices.dims() != linear && indices.dims() != coordinates) {
    return bad_model(what + " has " + std::to_string(values.count()) + " values but indices of shape " +
                     elements_text(indices.dims()));
  }
  XYNTRA_TRY(Tensor dense, allocate(values.dtype(), proto.dims));
  const std::size_t width = static_cast<std::size_t>(bits_of(values.dtype())) / 8;
  const std::int64_t parts = indices.dims() == linear ? 1 : rank;
  for (std::int64_t i = 0; i < values.count(); ++i) {
    std::int64_t position = 0;
    for (std::int64_t axis = 0; axis < parts; ++axis) {
      const std::int64_t index = indices.element_as_i64(i * parts + axis);
      const std::int64_t extent =
          indices.dims() == linear ? dense.count() : proto.dims[static_cast<std::size_t>(axis)];
      if (index < 0 || index >= extent) return bad_model(what + " has an index out of range");
      position = position * (parts == 1 ? 1 : extent) + index;
    }
    const auto from = values.bytes().subspan(static_cast<std::size_t>(i) * width, width);
    std::ranges::copy(from,
                      dense.mutable_bytes().subspan(static_cast<std::size_t>(position) * width).begin());
  }
  return dense;
}

Result<Datum> to_datum(const DatumProto& proto, TensorReader& tensors) {
  if (proto.kind == DatumProto::Kind::Tensor) {
    XYNTRA_TRY(Tensor tensor, tensors.read(proto.tensor));
    return Datum::of(std::move(tensor));
  }
  std::vector<Datum> items;
  items.reserve(proto.items.size());
  for (const DatumProto& item : proto.items) {  // nesting was capped by the parser
    XYNTRA_TRY(Datum datum, to_datum(item, tensors));
    items.push_back(std::move(datum));
  }
  return proto.kind == DatumProto::Kind::Sequence ? Datum::sequence(std::move(items))
                                                  : Datum::optional(std::move(items));
}

Result<Datum> read_datum_file(const std::string& path, DatumProto::Kind kind) {
  XYNTRA_TRY(auto file, MappedFile::open(path));
  const auto read = [&]() -> Result<Datum> {
    XYNTRA_TRY(const DatumProto proto, parse_datum(file->bytes(), kind));
    TensorReader tensors(file, folder_of(path));
    return to_datum(proto, tensors);
  };
  Result<Datum> datum = read();
  if (!datum) return failure(std::move(datum).error().in_file(path));
  return datum;
}

}  // namespace xyntra::onnx
