#include "types/npy/npy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "support/files/file.h"
#include "support/files/stored_zip.h"
#include "types/npy/npy_header.h"

namespace xyntra {
namespace {

std::string data(const std::string& name) { return XYNTRA_SOURCE_DIR "/tests/unit/types/data/" + name; }

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::vector<double> elements(const Tensor& tensor) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < tensor.count(); ++i) values.push_back(tensor.element_as_f64(i));
  return values;
}

// A file with the given dictionary and elements, of version 1.0.
std::string file_with(const std::string& dictionary, const std::string& content = "") {
  std::string text("\x93NUMPY\x01\x00", 8);
  text += static_cast<char>(dictionary.size() & 0xff);
  text += static_cast<char>(dictionary.size() >> 8);
  return text + dictionary + content;
}

std::string error_of(const std::string& file) {
  const auto tensor = read_npy(bytes_of(file), nullptr);
  return tensor ? "no error" : tensor.error().to_string();
}

TEST(Npy, ReadsWhatNumpyWrites) {
  const std::vector<double> quarters = {0, 0.25, 0.5, 0.75, 1, 1.25}, signed_values = {-3, -2, -1, 0, 1, 2};
  const Tensor f32 = read_npy_file(data("c_order_f32.npy")).value();
  EXPECT_EQ(f32.dtype(), DType::F32);
  EXPECT_EQ(f32.dims(), (Dims{2, 3}));
  EXPECT_EQ(elements(f32), quarters);
  const Tensor i32 = read_npy_file(data("fortran_big_endian_i32.npy")).value();
  EXPECT_EQ(i32.dtype(), DType::I32);
  EXPECT_EQ(i32.dims(), (Dims{2, 3}));
  EXPECT_EQ(elements(i32), signed_values);
  EXPECT_EQ(elements(read_npy_file(data("bf16.npy")).value()), quarters);
  EXPECT_EQ(elements(read_npy_file(data("f8e5m2.npy")).value()), quarters);
  const Tensor i4 = read_npy_file(data("i4.npy"), {DType::I4, nullptr}).value();
  EXPECT_EQ(i4.bytes().size(), 3u);
  EXPECT_EQ(elements(i4), signed_values);
  const Tensor flag = read_npy_file(data("scalar_bool.npy")).value();
  EXPECT_EQ(flag.rank(), 0);
  EXPECT_EQ(elements(flag), std::vector<double>{1});
  EXPECT_EQ(elements(read_npy_file(data("version_2_u8.npy")).value()),
            (std::vector<double>{0, 1, 2, 3, 4, 5}));
}

TEST(Npy, WritesTheBytesThatNumpyWrites) {
  const Tensor f32 = read_npy_file(data("c_order_f32.npy")).value();
  EXPECT_EQ(npy_bytes(f32), MappedFile::open(data("c_order_f32.npy")).value()->text());
  const Tensor flag = read_npy_file(data("scalar_bool.npy")).value();
  EXPECT_EQ(npy_bytes(flag), MappedFile::open(data("scalar_bool.npy")).value()->text());
}

TEST(Npy, EveryDtypeAndShapeRoundTrips) {
  for (DType dtype : all_dtypes()) {
    for (const Dims& dims : {Dims{}, Dims{5}, Dims{0, 3}, Dims{2, 1, 3}}) {
      Tensor tensor = Tensor::allocate(dtype, dims).value();
      for (std::int64_t i = 0; i < tensor.count(); ++i)
        tensor.set_element_f64(i, static_cast<double>(i % 2 + 1));
      const std::string file = npy_bytes(tensor);
      EXPECT_EQ(file.find('\n') % 64, 63u);
      const Tensor back = read_npy(bytes_of(file), nullptr, {dtype, nullptr}).value();
      EXPECT_EQ(back.content_hash(), tensor.content_hash()) << name_of(dtype);
    }
  }
}

TEST(Npy, FilesAreSharedNotCopied) {
  const std::string path = testing::TempDir() + "xyntra-npy-" + std::to_string(getpid()) + ".npy";
  Tensor tensor = Tensor::allocate(DType::F32, {1 << 20}).value();
  tensor.set_element_f64(12345, 6);
  ASSERT_TRUE(write_npy_file(path, tensor).has_value());
  const auto nothing = std::make_shared<Budget>(0, std::nullopt, nullptr);
  const Tensor back = read_npy_file(path, {std::nullopt, nothing}).value();
  std::filesystem::remove(path);
  EXPECT_EQ(back.element_as_f64(12345), 6);
  EXPECT_EQ(read_npy_file(data("fortran_big_endian_i32.npy"), {std::nullopt, nothing}).error().error_class,
            ErrorClass::Limit);
}

TEST(Npy, DirtyBooleansAreCleaned) {
  const std::string file =
      file_with("{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}", std::string("\x00\x02\x01", 3));
  const Tensor tensor = read_npy(bytes_of(file), nullptr).value();
  EXPECT_EQ(tensor.bytes()[1], std::byte{1});
}

TEST(Npy, HeadersInOtherStylesAreRead) {
  EXPECT_EQ(error_of(file_with("{\"shape\":(2L,),\n \"fortran_order\":True,\"descr\":\"=i1\"}   \n", "ab")),
            "no error");
  EXPECT_EQ(error_of(file_with("{'shape': (), 'fortran_order': False, 'descr': 'u1',}", "a")), "no error");
}

TEST(Npy, TypesWeDoNotReadAreNamed) {
  const auto error = [](const std::string& name) { return read_npy_file(data(name)).error().message; };
  EXPECT_EQ(error("objects.npy"), ".npy arrays of Python objects: they hold pickles, which are never read");
  EXPECT_EQ(error("structured.npy"), "structured .npy arrays; only plain numbers are read");
  EXPECT_EQ(error("complex.npy"), ".npy data of type '<c8'");
  EXPECT_EQ(error("i4.npy"), "raw .npy data of type '<V1'");
  EXPECT_EQ(read_npy_file(data("bf16.npy"), {DType::I4, nullptr}).error().message,
            "raw .npy data of type '<V2' where i4 is needed");
}

TEST(Npy, HostileHeadersAreRefused) {
  const std::string good = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }";
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return error_of(file_with(text, std::string(12, '\0')));
  };
  EXPECT_EQ(error_of(""), "bad model: not a .npy file: it does not begin with \\x93NUMPY");
  EXPECT_EQ(error_of("PK\x03\x04"), "bad model: not a .npy file: it does not begin with \\x93NUMPY");
  EXPECT_EQ(error_of("\x93NUMPY\x01"), "bad model: the .npy header is cut off");
  EXPECT_EQ(error_of(std::string("\x93NUMPY\x02\x00\x10\x00", 10)), "bad model: the .npy header is cut off");
  EXPECT_EQ(error_of(std::string("\x93NUMPY\x09\x00\x10\x00", 10)), "unsupported: .npy version 9.0");
  EXPECT_EQ(error_of(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12)),
            "limit: a .npy header of 4294967295 bytes; at most 65536 are read");
  EXPECT_EQ(error_of(file_with(good).substr(0, 40)), "bad model: the .npy header is cut off");
  EXPECT_EQ(error_of(file_with(good, "abc")),
            "bad model: the .npy header asks for 12 bytes of elements, but there are 3");
  EXPECT_EQ(error_of(file_with(good, std::string(13, '\0'))),
            "bad model: the .npy header asks for 12 bytes of elements, but there are 13");
  EXPECT_EQ(replaced("3,", "1099511627776, 1099511627776"),
            "limit: more than 2^48 elements in [1099511627776,1099511627776]");
  EXPECT_EQ(replaced("3,", "99999999999999999999,"), "bad model: bad .npy header: expected a size in shape");
  EXPECT_EQ(replaced("3,", "-3,"), "bad model: bad .npy header: expected a size in shape");
  EXPECT_EQ(replaced("3,", "3 3"), "bad model: bad .npy header: expected ')'");
  EXPECT_EQ(replaced("False", "0"), "bad model: bad .npy header: expected True or False");
  EXPECT_EQ(replaced("'shape'", "'descr'"), "bad model: bad .npy header: unknown or repeated key 'descr'");
  EXPECT_EQ(replaced("shape", "evil\x1b"), "bad model: bad .npy header: unknown or repeated key 'evil\\x1b'");
  EXPECT_EQ(replaced("'<f4'", "__import__('os')"), "bad model: bad .npy header: expected a string");
  EXPECT_EQ(replaced("<f4", "<f\\x34"), "bad model: bad .npy header: an escape in a string");
  EXPECT_EQ(replaced("'<f4'", "'<f4"), "bad model: bad .npy header: expected '}'");
  EXPECT_EQ(replaced("}", "} {}"), "bad model: bad .npy header: text after the closing brace");
  EXPECT_EQ(replaced("'fortran_order': False, ", ""),
            "bad model: bad .npy header: descr, fortran_order or shape is missing");
  std::string many;
  for (int i = 0; i < 65; ++i) many += "1,";
  EXPECT_EQ(replaced("3,", many), "bad model: bad .npy header: more than 64 dimensions");
}

TEST(Npy, EveryPrefixIsAnError) {
  const auto file = MappedFile::open(data("fortran_big_endian_i32.npy")).value();
  for (std::size_t size = 0; size < file->bytes().size(); ++size) {
    EXPECT_FALSE(read_npy(file->bytes().first(size), file).has_value()) << size;
  }
}

TEST(Npz, ReadsWhatNumpyWrites) {
  const auto deflated = read_npz_file(data("deflated.npz"), {{"scope/y", DType::I4}}).value();
  ASSERT_EQ(deflated.size(), 2u);
  EXPECT_EQ(elements(deflated.at("x")), (std::vector<double>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(deflated.at("scope/y").dtype(), DType::I4);
  const auto stored = read_npz_file(data("stored.npz")).value();
  EXPECT_EQ(elements(stored.at("a")), std::vector<double>{1.5});
  EXPECT_EQ(stored.at("b").dims(), (Dims{0, 4}));
  EXPECT_EQ(read_npz_file(data("deflated.npz")).error().message,
            "entry 'scope/y': raw .npy data of type '<V1'");
}

// What is written of them, as bytes.
std::string npz_of(const std::map<std::string, Tensor>& tensors) {
  const std::string path = testing::TempDir() + "xyntra-npz-" + std::to_string(getpid()) + ".npz";
  EXPECT_TRUE(write_npz_file(path, tensors).has_value());
  std::string bytes(MappedFile::open(path).value()->text());
  std::filesystem::remove(path);
  return bytes;
}

TEST(Npz, RoundTripsToTheSameBytes) {
  std::map<std::string, Tensor> tensors;
  tensors.emplace("a/b", Tensor::scalar_f32(2.5f));
  tensors.emplace("größe", Tensor::of_integers(std::array<std::int64_t, 2>{7, 8}));
  const std::string bytes = npz_of(tensors);
  EXPECT_EQ(bytes, npz_of(tensors));
  const auto back = read_npz(bytes_of(bytes)).value();
  ASSERT_EQ(back.size(), 2u);
  for (const auto& [name, tensor] : tensors) EXPECT_EQ(back.at(name).content_hash(), tensor.content_hash());
  EXPECT_TRUE(read_npz(bytes_of(npz_of({}))).value().empty());
}

// Deflate (RFC 1951) with its fixed codes: a zero, then the zero before it 258 times, again and again.
struct Zeros {
  explicit Zeros(std::size_t repeats) {
    put(1, 1);  // the last block
    put(1, 2);  // of fixed codes
    code(0x30, 8);  // the literal 0
    for (std::size_t i = 0; i < repeats; ++i, size += 258) {
      code(0xc5, 8);  // 258 bytes
      code(0, 5);  // as one byte ago
    }
    code(0, 7);  // the end
    while (bits % 8 != 0) put(0, 1);
  }
  void put(unsigned value, int count) {  // the lowest bit first
    for (int i = 0; i < count; ++i, ++bits) {
      if (bits % 8 == 0) packed.push_back('\0');
      packed.back() = static_cast<char>(packed.back() | ((value >> i & 1) << bits % 8));
    }
  }
  void code(unsigned value, int count) {  // the highest first
    while (count-- > 0) put(value >> count & 1, 1);
  }
  std::string packed;
  std::size_t bits = 0, size = 1;
};

// An archive whose one entry is a deflated run of zeros.
std::string bomb(std::size_t repeats) {
  const Zeros zeros(repeats);
  const std::string path = testing::TempDir() + "xyntra-bomb-" + std::to_string(getpid()) + ".npz";
  const ZipPart part{"x.npy", {bytes_of(zeros.packed)}};
  EXPECT_TRUE(write_stored_zip(path, {&part, 1}, 1).has_value());
  std::string archive(MappedFile::open(path).value()->text());
  std::filesystem::remove(path);
  const auto put = [&](std::size_t offset, std::size_t value, std::size_t width) {
    for (std::size_t i = 0; i < width; ++i) archive.at(offset + i) = static_cast<char>(value >> (8 * i));
  };
  const std::size_t directory = archive.rfind("PK\1\2");
  put(directory + 10, 8, 2);  // deflated
  put(directory + 16, crc32(bytes_of(std::string(zeros.size, '\0'))), 4);
  put(directory + 24, zeros.size, 4);
  return archive;
}

TEST(Npz, BombsAreRefused) {
  const std::string large = bomb(264'176);  // 65 MiB
  EXPECT_LT(large.size(), 500'000u);
  EXPECT_EQ(read_npz(bytes_of(large)).error().error_class, ErrorClass::Limit);
  NpzLimits limits;
  limits.total_bytes = 1000;
  const std::string small = bomb(8);
  EXPECT_EQ(read_npz(bytes_of(small), {}, nullptr, limits).error().to_string(),
            "limit: the .npz archive unpacks to more than 1000 B");
  limits.entries = 0;
  EXPECT_EQ(read_npz(bytes_of(small), {}, nullptr, limits).error().to_string(),
            "limit: the .npz archive has 1 entries; at most 0 are read");
  EXPECT_EQ(read_npz(bytes_of(small)).error().to_string(),
            "bad model: entry 'x': not a .npy file: it does not begin with \\x93NUMPY");
  const auto budget = std::make_shared<Budget>(1000, std::nullopt, nullptr);
  EXPECT_EQ(read_npz(bytes_of(small), {}, budget).error().error_class, ErrorClass::Limit);
}

TEST(Npz, NamesThatNoArchiveHoldsAreRefused) {
  std::map<std::string, Tensor> tensors;
  tensors.emplace(std::string(2000, 'x'), Tensor::scalar_f32(1));
  EXPECT_EQ(write_npz_file(testing::TempDir() + "none.npz", tensors).error().message,
            "the name of an entry of a .npz archive has at most 1024 bytes; one has 2004");
}

TEST(Npz, DamagedArchivesAreErrors) {
  const auto file = MappedFile::open(data("deflated.npz")).value();
  for (std::size_t size = 0; size < file->bytes().size(); ++size) {
    EXPECT_FALSE(read_npz(file->bytes().first(size), {{"scope/y", DType::I4}}).has_value()) << size;
  }
  // Any changed byte gives an error or tensors, never a crash; most of the content is covered by checksums.
  std::string bytes(file->text());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(bytes[i] ^ 0x55);
    static_cast<void>(read_npz(bytes_of(bytes), {{"scope/y", DType::I4}}));
    bytes[i] = static_cast<char>(bytes[i] ^ 0x55);
  }
}

}  // namespace
}  // namespace xyntra
