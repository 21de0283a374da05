// The types of wgpu-native's C interface, from the table in api.def. They have the names of webgpu.h, in our namespace, so
// that both can be included at once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace xyntra::webgpu {

using std::size_t, std::uint8_t, std::uint32_t, std::uint64_t;
using WGPUBool = uint32_t;

#define HANDLE(name)       \
  struct WGPU##name##Impl; \
  using WGPU##name = WGPU##name##Impl*;
#define ENUM(name) enum WGPU##name : uint32_t {
#define VALUE(prefix, name, value) WGPU##prefix##_##name = value,
#define END_ENUM() \
  }                \
  ;
#define FLAGS(name) using WGPU##name = uint64_t;
#define FLAG(prefix, name, value) inline constexpr WGPU##prefix WGPU##prefix##_##name = value;
#define STRUCT(name) struct WGPU##name {
#define FIELD(type, name) type name;
#define END_STRUCT() \
  }                  \
  ;
#define OPAQUE(name, size)       \
  struct alignas(8) WGPU##name { \
    std::byte bytes[size];       \
  };
#define CALLBACK(name, ...) using WGPU##name = void (*)(__VA_ARGS__);
#include "runtime/drivers/webgpu/api.def"

}  // namespace xyntra::webgpu
