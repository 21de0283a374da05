// Our declaration of wgpu-native's interface (api.def) is that of its own headers: every type, field, value and function
// of the table, compared by the compiler. Both are included here: theirs in the global namespace, ours in our own.
#include <gtest/gtest.h>

#if __has_include(<wgpu.h>)
#include <wgpu.h>

#include <type_traits>

#include "runtime/drivers/webgpu/library.h"

namespace xyntra::webgpu {
namespace {

// The type of their headers that stands for one of ours: `const WGPULimits*` for `const xyntra::webgpu::WGPULimits*`.
template <class T>
struct Theirs {
  static_assert(std::is_arithmetic_v<T> || std::is_void_v<T>, "a type that api.def does not declare");
  using type = T;
};
template <class T>
struct Theirs<const T> {
  using type = const typename Theirs<T>::type;
};
template <class T>
struct Theirs<T*> {
  using type = typename Theirs<T>::type*;
};
template <class Result, class... Arguments>
struct Theirs<Result(Arguments...)> {
  using type = typename Theirs<Result>::type(typename Theirs<Arguments>::type...);
};
#define XYNTRA_THEIRS(name)    \
  template <>                  \
  struct Theirs<WGPU##name> {  \
    using type = ::WGPU##name; \
  };
#define HANDLE(name) XYNTRA_THEIRS(name##Impl)
#define ENUM(name) XYNTRA_THEIRS(name)
#define VALUE(prefix, name, value)
#define END_ENUM()
#define STRUCT(name) XYNTRA_THEIRS(name)
#define FIELD(type, name)
#define END_STRUCT()
#define OPAQUE(name, bytes) XYNTRA_THEIRS(name)
#include "runtime/drivers/webgpu/api.def"
#undef XYNTRA_THEIRS

template <class Ours, class TheirType>
constexpr bool kSameSize = sizeof(Ours) == sizeof(TheirType) && alignof(Ours) == alignof(TheirType);
template <class Ours, class TheirType>
constexpr bool kSame = std::is_same_v<typename Theirs<Ours>::type, TheirType>;

// How many fields an aggregate has: as many as it can be initialised with. A field that hides in padding is one more.
struct Anything {
  template <class T>
  operator T() const;
};
template <class T, class... Values>
constexpr std::size_t field_count() {
  if constexpr (requires { T{Values{}..., Anything{}}; }) {
    return field_count<T, Values..., Anything>();
  } else {
    return sizeof...(Values);
  }
}

#define HANDLE(name) static_assert(kSame<WGPU##name, ::WGPU##name>);
#define ENUM(name) static_assert(kSameSize<WGPU##name, ::WGPU##name>);
#define VALUE(prefix, name, value) static_assert(WGPU##prefix##_##name == +::WGPU##prefix##_##name);
#define END_ENUM()
#define FLAGS(name) static_assert(kSame<WGPU##name, ::WGPU##name>);
#define FLAG(prefix, name, value) static_assert(WGPU##prefix##_##name == ::WGPU##prefix##_##name);
#define OPAQUE(name, bytes) static_assert(kSameSize<WGPU##name, ::WGPU##name>);
#define CALLBACK(name, ...) static_assert(kSame<WGPU##name, ::WGPU##name>);
#define FUNCTION(result, name, ...) static_assert(kSame<decltype(Library::name), decltype(&::wgpu##name)>);
#define STRUCT(name)                                   \
  namespace fields_of_##name {                         \
    using Ours = WGPU##name;                           \
    using TheirStruct = ::WGPU##name;                  \
    static_assert(kSameSize<Ours, TheirStruct>);       \
    static_assert(std::is_trivially_copyable_v<Ours>); \
    static_assert(field_count<Ours>() == field_count<TheirStruct>());
#define FIELD(type, name)                                             \
  static_assert(offsetof(Ours, name) == offsetof(TheirStruct, name)); \
  static_assert(kSame<decltype(Ours::name), decltype(TheirStruct::name)>);
#define END_STRUCT() }
#include "runtime/drivers/webgpu/api.def"

TEST(WebGpuApi, IsThatOfTheHeaders) { SUCCEED() << "compared when this file was compiled"; }

}  // namespace
}  // namespace xyntra::webgpu

#else

TEST(WebGpuApi, IsThatOfTheHeaders) {
  GTEST_SKIP() << "the headers of wgpu-native were not there when this was built: scripts/setup wgpu";
}

#endif
