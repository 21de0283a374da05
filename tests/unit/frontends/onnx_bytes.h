// Writes ONNX files in memory, right or wrong, for the tests of their reader.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace xyntra::onnx_bytes {

inline std::string varint(std::uint64_t value) {
  std::string out;
  for (; value > 127; value >>= 7) out += static_cast<char>(value | 128);
  return out + static_cast<char>(value);
}

inline std::string number(std::uint32_t field, std::int64_t value) {
  return varint(field << 3) + varint(static_cast<std::uint64_t>(value));
}

inline std::string bytes(std::uint32_t field, std::string_view payload) {
  return varint(field << 3 | 2) + varint(payload.size()) + std::string(payload);
}

inline std::string float_bits(float value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }

using Names = std::initializer_list<const char*>;
using Sizes = std::vector<std::int64_t>;

inline std::string node(std::string_view op, Names inputs, Names outputs, std::string_view attributes = "",
                        std::string_view name = "") {
  std::string out;
  for (const char* input : inputs) out += bytes(1, input);
  for (const char* output : outputs) out += bytes(2, output);
  if (!name.empty()) out += bytes(3, name);
  return bytes(1, out + bytes(4, op) + std::string(attributes));
}

inline std::string attribute(std::string_view name, int type, std::string_view value) {
  return bytes(5, bytes(1, name) + std::string(value) + number(20, type));
}
inline std::string integer(std::string_view name, std::int64_t value) {
  return attribute(name, 2, number(3, value));
}
inline std::string text(std::string_view name, std::string_view value) {
  return attribute(name, 3, bytes(4, value));
}
inline std::string real(std::string_view name, float value) {
  return attribute(name, 1, varint(2 << 3 | 5) + float_bits(value));
}
inline std::string integers(std::string_view name, const Sizes& values) {
  std::string out;
  for (const std::int64_t value : values) out += number(8, value);
  return attribute(name, 7, out);
}
inline std::string reals(std::string_view name, const std::vector<float>& values) {
  std::string packed;
  for (const float value : values) packed += float_bits(value);
  return attribute(name, 6, bytes(7, packed));
}
inline std::string graph(std::string_view name, std::string_view body) {
  return attribute(name, 5, bytes(6, body));
}

inline std::string tensor_type(int dtype, const Sizes& dims) {
  std::string shape;
  for (const std::int64_t dim : dims) shape += bytes(1, dim < 0 ? bytes(2, "n") : number(1, dim));
  return bytes(1, number(1, dtype) + bytes(2, shape));
}
inline std::string value(std::uint32_t field, std::string_view name, int dtype, const Sizes& dims) {
  return bytes(field, bytes(1, name) + bytes(2, tensor_type(dtype, dims)));
}
inline std::string input(std::string_view name, const Sizes& dims = {2, 3}, int dtype = 1) {
  return value(11, name, dtype, dims);
}
inline std::string output(std::string_view name) { return bytes(12, bytes(1, name)); }

inline std::string tensor(std::string_view name, int dtype, const Sizes& dims, std::string_view data) {
  std::string out;
  for (const std::int64_t dim : dims) out += number(1, dim);
  return out + number(2, dtype) + bytes(8, name) + std::string(data);
}
inline std::string initializer(std::string_view name, int dtype, const Sizes& dims, std::string_view data) {
  return bytes(5, tensor(name, dtype, dims, data));
}

inline std::string model(std::string_view body, std::int64_t opset = 21, std::string_view more = "") {
  return number(1, 8) + bytes(8, number(2, opset)) + bytes(7, body) + std::string(more);
}

inline std::span<const std::byte> view(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace xyntra::onnx_bytes
