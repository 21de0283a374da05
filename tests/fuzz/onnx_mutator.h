// Changes an ONNX file as a tree of protobuf fields, so that most mutants get past the wire format and into the
// importer: numbers take dangerous values, names are exchanged, nodes and subtrees are moved, copied and dropped.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace xyntra::fuzz {

enum class Kind : std::uint8_t {
  Model,
  Graph,
  Node,
  Attribute,
  Function,
  Tensor,
  Sparse,
  ValueInfo,
  Type,
  TensorType,
  ElementType,
  Shape,
  Dimension,
  Opset,
  Entry,
  Leaf,
};

// Which fields of which messages hold messages.
struct Child {
  Kind parent;
  std::uint32_t field;
  Kind kind;
};
inline constexpr std::array kChildren{
    Child{Kind::Model, 7, Kind::Graph},       Child{Kind::Model, 8, Kind::Opset},
    Child{Kind::Model, 14, Kind::Entry},      Child{Kind::Model, 25, Kind::Function},
    Child{Kind::Graph, 1, Kind::Node},        Child{Kind::Graph, 5, Kind::Tensor},
    Child{Kind::Graph, 11, Kind::ValueInfo},  Child{Kind::Graph, 12, Kind::ValueInfo},
    Child{Kind::Graph, 13, Kind::ValueInfo},  Child{Kind::Graph, 15, Kind::Sparse},
    Child{Kind::Node, 5, Kind::Attribute},    Child{Kind::Attribute, 5, Kind::Tensor},
    Child{Kind::Attribute, 6, Kind::Graph},   Child{Kind::Attribute, 10, Kind::Tensor},
    Child{Kind::Attribute, 11, Kind::Graph},  Child{Kind::Attribute, 14, Kind::Type},
    Child{Kind::Attribute, 22, Kind::Sparse}, Child{Kind::Function, 7, Kind::Node},
    Child{Kind::Function, 9, Kind::Opset},    Child{Kind::Function, 11, Kind::Attribute},
    Child{Kind::ValueInfo, 2, Kind::Type},    Child{Kind::Type, 1, Kind::TensorType},
    Child{Kind::Type, 4, Kind::ElementType},  Child{Kind::Type, 9, Kind::ElementType},
    Child{Kind::TensorType, 2, Kind::Shape},  Child{Kind::ElementType, 1, Kind::Type},
    Child{Kind::Shape, 1, Kind::Dimension},   Child{Kind::Sparse, 1, Kind::Tensor},
    Child{Kind::Sparse, 2, Kind::Tensor},     Child{Kind::Tensor, 13, Kind::Entry},
};

struct Field {
  std::uint32_t number = 0;
  std::uint32_t wire_type = 0;
  std::uint64_t value = 0;  // wire type 0
  std::string payload;  // of a leaf
  Kind kind = Kind::Leaf;
  std::vector<Field> children;
  bool wrong_length = false;
};

inline std::optional<std::uint64_t> take_varint(std::string_view& rest) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && !rest.empty(); shift += 7) {
    const auto byte = static_cast<std::uint8_t>(rest.front());
    rest.remove_prefix(1);
    value |= std::uint64_t{byte & 127U} << shift;
    if (byte < 128) return value;
  }
  return std::nullopt;
}

inline std::optional<std::vector<Field>> parse(std::string_view rest, Kind kind, int depth = 0) {
  std::vector<Field> fields;
  while (!rest.empty()) {
    const auto tag = take_varint(rest);
    if (!tag || depth > 40) return std::nullopt;
    Field field;
    field.number = static_cast<std::uint32_t>(*tag >> 3);
    field.wire_type = static_cast<std::uint32_t>(*tag & 7);
    std::uint64_t size = field.wire_type == 1 ? 8 : 4;
    if (field.wire_type == 0 || field.wire_type == 2) {
      const auto number = take_varint(rest);
      if (!number) return std::nullopt;
      size = field.wire_type == 0 ? 0 : *number;
      field.value = *number;
    }
    if (size > rest.size()) return std::nullopt;
    const std::string_view payload = rest.substr(0, size);
    rest.remove_prefix(size);
    for (const Child& child : kChildren) {
      if (field.wire_type != 2 || child.parent != kind || child.field != field.number) continue;
      if (auto children = parse(payload, child.kind, depth + 1)) {
        field.kind = child.kind;
        field.children = std::move(*children);
      }
    }
    if (field.kind == Kind::Leaf) field.payload = payload;
    fields.push_back(std::move(field));
  }
  return fields;
}

inline void put_varint(std::string& out, std::uint64_t value) {
  for (; value > 127; value >>= 7) out += static_cast<char>(value | 128);
  out += static_cast<char>(value);
}

inline std::string print(const std::vector<Field>& fields) {
  std::string out;
  for (const Field& field : fields) {
    put_varint(out, std::uint64_t{field.number} << 3 | field.wire_type);
    if (field.wire_type == 0) put_varint(out, field.value);
    if (field.wire_type == 0) continue;
    const std::string body = field.kind == Kind::Leaf ? field.payload : print(field.children);
    if (field.wire_type == 2) put_varint(out, field.wrong_length ? field.value : body.size());
    out += body;
  }
  return out;
}

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  void mutate(std::vector<Field>& model) {
    all_.clear();
    collect(model);
    if (all_.empty()) return;
    auto [siblings, index] = all_[below(all_.size())];
    Field& field = (*siblings)[index];
    switch (below(9)) {
      case 0: change_number(field); break;
      case 1: siblings->erase(siblings->begin() + static_cast<std::ptrdiff_t>(index)); break;
      case 2: {
        const Field copy = field;
        siblings->insert(siblings->begin() + static_cast<std::ptrdiff_t>(below(siblings->size() + 1)), copy);
        break;
      }
      case 3: std::swap(field, (*siblings)[below(siblings->size())]); break;
      case 4: {  // another value of the same kind: a name for a name, a node for a node
        const auto [others, other] = all_[below(all_.size())];
        const Field copy = (*others)[other];
        if (copy.kind == field.kind && copy.wire_type == field.wire_type) {
          const std::uint32_t number = field.number;
          field = copy;
          field.number = number;
        }
        break;
      }
      case 5: change_payload(field); break;
      case 6: field.number = 1 + static_cast<std::uint32_t>(below(26)); break;
      case 7: change_number(field); break;
      default:
        if (below(4) != 0) break;
        field.wrong_length = true;
        field.value = kNumbers[below(kNumbers.size())];
    }
  }

 private:
  static constexpr std::array<std::uint64_t, 16> kNumbers{
      0,          1,     2,    7, 21, 33, 64, 127, 255, 1U << 16, 1ULL << 31, 1ULL << 32, (1ULL << 42) + 1,
      1ULL << 62, ~0ULL, ~1ULL};

  std::size_t below(std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_);
  }

  void collect(std::vector<Field>& fields) {
    for (std::size_t i = 0; i < fields.size(); ++i) {
      all_.emplace_back(&fields, i);
      collect(fields[i].children);
    }
  }

  void change_number(Field& field) {
    if (field.wire_type != 0) return change_payload(field);
    field.value = below(2) == 0 ? kNumbers[below(kNumbers.size())] : field.value + below(5) - 2;
  }

  void change_payload(Field& field) {
    if (field.kind != Kind::Leaf || field.wire_type == 0) return;
    const std::size_t size = field.payload.size();
    field.payload.resize(size + 16);
    const std::size_t changed =
        LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(field.payload.data()), size, field.payload.size());
    field.payload.resize(field.wire_type == 2 ? changed : size);
  }

  std::minstd_rand random_;
  std::vector<std::pair<std::vector<Field>*, std::size_t>> all_;
};

}  // namespace xyntra::fuzz
