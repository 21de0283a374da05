// Archives as torch.jit.save writes them, made of text, for tests.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "support/files/stored_zip.h"

namespace xyntra::torchscript_archive {

inline std::string little_endian(std::uint64_t value, int size) {
  std::string bytes;
  for (int i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

// Stored entries, in order.
inline std::string zip(const std::map<std::string, std::string>& entries) {
  using namespace std::string_literals;
  std::string file, directory;
  for (const auto& [name, content] : entries) {
    const std::string facts = little_endian(crc32(std::as_bytes(std::span(content))), 4) +
                              little_endian(content.size(), 4) + little_endian(content.size(), 4) +
                              little_endian(name.size(), 2) + little_endian(0, 2);
    directory += "PK\x01\x02\x14\0\x14\0\0\0\0\0\0\0\0\0"s + facts + std::string(10, '\0') +
                 little_endian(file.size(), 4) + name;
    file += "PK\x03\x04\x14\0\0\0\0\0\0\0\0\0"s + facts + name + content;
  }
  const std::string count = little_endian(entries.size(), 2);
  return file + directory + "PK\x05\x06\0\0\0\0"s + count + count + little_endian(directory.size(), 4) +
         little_endian(file.size(), 4) + "\0\0"s;
}

inline std::string text(std::string_view value) {
  return "X" + little_endian(value.size(), 4) + std::string(value);
}

// A tensor of f32 whose storage is the entry data/KEY.
inline std::string tensor(std::string_view key, std::uint64_t elements, std::string_view sizes,
                          std::string_view strides) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\nFloatStorage\n" + text(key) +
         text("cpu") + "J" + little_endian(elements, 4) + "tQK" + '\0' + std::string(sizes) +
         std::string(strides) + "\x89" + "ccollections\nOrderedDict\n)RtR";
}

// The class Net of `code` in code/__torch__.py with these attributes, as opcodes: text("w") + tensor(…).
inline std::string module(const std::string& code, const std::string& attributes = "",
                          std::map<std::string, std::string> more = {}, const std::string& constants = ")") {
  more["m/code/__torch__.py"] = code;
  more["m/data.pkl"] =
      "\x80\x02"
      "c__torch__\nNet\n)\x81}(" +
      attributes + "ub.";
  more["m/constants.pkl"] = "\x80\x02" + constants + ".";
  more["m/version"] = "3\n";
  return zip(more);
}

}  // namespace xyntra::torchscript_archive
