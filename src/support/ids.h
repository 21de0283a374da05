// Typed indices: a NodeId cannot be used where a ValueId is meant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace xyntra {

template <class Tag>
struct Id {
  static constexpr std::uint32_t kNone = UINT32_MAX;
  std::uint32_t index = kNone;

  constexpr Id() = default;
  constexpr explicit Id(std::size_t value) : index(static_cast<std::uint32_t>(value)) {}
  constexpr bool valid() const { return index != kNone; }
  constexpr bool operator==(const Id&) const = default;
  constexpr auto operator<=>(const Id&) const = default;
};

}  // namespace xyntra

template <class Tag>
struct std::hash<xyntra::Id<Tag>> {
  std::size_t operator()(xyntra::Id<Tag> id) const noexcept { return id.index; }
};
