// The type of an edge: a tensor with a symbolic shape, a sequence, or an optional.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "types/dim.h"
#include "types/dtype.h"

namespace xyntra {

struct Type {
  enum class Kind : std::uint8_t { Unknown, Tensor, Sequence, Optional };
  Kind kind = Kind::Unknown;
  DType dtype = DType::F32;             // Tensor
  std::optional<Shape> shape;           // Tensor; nullopt: rank unknown until run time
  std::shared_ptr<const Type> element;  // Sequence and Optional

  static Type tensor(DType dtype, std::optional<Shape> shape = std::nullopt);
  static Type sequence(Type element);
  static Type optional(Type element);

  bool is_tensor() const { return kind == Kind::Tensor; }
  bool is_of_numbers() const { return is_tensor() && !is_string(dtype); }  // what memory can be planned for
  bool has_static_shape() const { return is_tensor() && shape && is_static(*shape); }
  bool operator==(const Type& other) const;
  std::string to_string()
      const;  // "f32[batch, 128]", "f32[*]" for unknown rank, "seq<f32[3]>", "opt<…>", "?"
};

}  // namespace xyntra
