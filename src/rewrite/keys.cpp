#include "rewrite/keys.h"

namespace xyntra {
namespace {

constexpr std::size_t kComparedBytes = 1024;

}  // namespace

std::string content_key(const Tensor& tensor) {
  std::string key(1, static_cast<char>(tensor.dtype()));
  append_number(key, tensor.dims().size());
  for (std::int64_t size : tensor.dims()) append_number(key, size);
  const auto bytes = tensor.bytes();
  const bool small = bytes.size() <= kComparedBytes;
  key += small ? 's' : 'p';
  if (!small) append_number(key, reinterpret_cast<std::uintptr_t>(bytes.data()));
  if (small) {
    for (std::byte byte : bytes) key += static_cast<char>(byte);
  }
  return key;
}

}  // namespace xyntra
