#include "types/npy/npy_header.h"

#include "support/text/text.h"

namespace xyntra {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kLongestHeader = std::size_t{1} << 16;
constexpr std::size_t kHighestRank = 64;  // NumPy's own

std::size_t byte_at(std::span<const std::byte> bytes, std::size_t index) {
  return std::to_integer<std::size_t>(bytes[index]);
}

struct Preamble {
  std::size_t dictionary_offset;
  std::size_t dictionary_size;
};

Result<Preamble> read_preamble(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kMagic)) return bad_model("not a .npy file: it does not begin with \\x93NUMPY");
  if (bytes.size() < 10) return bad_model("the .npy header is cut off");
  const std::size_t major = byte_at(bytes, 6);
  if (major < 1 || major > 3 || byte_at(bytes, 7) != 0) {
    return unsupported(".npy version " + std::to_string(major) + "." + std::to_string(byte_at(bytes, 7)));
  }
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  if (bytes.size() < 8 + length_bytes) return bad_model("the .npy header is cut off");
  std::size_t size = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) size |= byte_at(bytes, 8 + i) << (8 * i);
  if (size > kLongestHeader) {
    return limit_error("a .npy header of " + std::to_string(size) + " bytes; at most " +
                       std::to_string(kLongestHeader) + " are read");
  }
  return Preamble{8 + length_bytes, size};
}

// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } with the keys in any order.
class DictionaryReader {
 public:
  explicit DictionaryReader(std::string_view text) : text_(text) {}

  Result<NpyHeader> read() {
    NpyHeader header;
    bool has_descr = false, has_order = false, has_shape = false;
    XYNTRA_CHECK_OK(expect('{'));
    while (!accept('}')) {
      XYNTRA_TRY(const std::string key, read_string());
      XYNTRA_CHECK_OK(expect(':'));
      if (key == "descr" && !std::exchange(has_descr, true)) {
        XYNTRA_TRY(header.descr, read_descr());
      } else if (key == "fortran_order" && !std::exchange(has_order, true)) {
        XYNTRA_TRY(header.fortran_order, read_bool());
      } else if (key == "shape" && !std::exchange(has_shape, true)) {
        XYNTRA_TRY(header.shape, read_shape());
      } else {
        return wrong("unknown or repeated key '" + key + "'");
      }
      if (!accept(',')) {
        XYNTRA_CHECK_OK(expect('}'));
        break;
      }
    }
    skip_space();
    if (!text_.empty()) return wrong("text after the closing brace");
    if (!has_descr || !has_order || !has_shape) return wrong("descr, fortran_order or shape is missing");
    return header;
  }

 private:
  static tl::unexpected<Error> wrong(const std::string& what) {
    return bad_model("bad .npy header: " + what);
  }

  void skip_space() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\n' || text_.front() == '\t')) {
      text_.remove_prefix(1);
    }
  }

  bool accept(char character) {
    skip_space();
    if (!text_.starts_with(character)) return false;
    text_.remove_prefix(1);
    return true;
  }

  Status expect(char character) {
    if (accept(character)) return {};
    return wrong(std::string("expected '") + character + "'");
  }

  Result<std::string> read_string() {
    skip_space();
    if (!text_.starts_with('\'') && !text_.starts_with('"')) return wrong("expected a string");
    const std::size_t close = text_.find(text_.front(), 1);
    if (close == std::string_view::npos) return wrong("a string without end");
    const std::string_view content = text_.substr(1, close - 1);
    if (content.find('\\') != std::string_view::npos) return wrong("an escape in a string");
    text_.remove_prefix(close + 1);
    return std::string(content);
  }

  Result<std::string> read_descr() {
    skip_space();
    if (text_.starts_with('[')) return unsupported("structured .npy arrays; only plain numbers are read");
    return read_string();
  }

  Result<bool> read_bool() {
    skip_space();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (!text_.starts_with(word)) continue;
      text_.remove_prefix(word.size());
      return value;
    }
    return wrong("expected True or False");
  }

  Result<Dims> read_shape() {
    Dims shape;
    XYNTRA_CHECK_OK(expect('('));
    while (!accept(')')) {
      skip_space();
      const std::size_t digits = std::min(text_.find_first_not_of("0123456789"), text_.size());
      const auto size = parse_i64(text_.substr(0, digits));
      if (!size) return wrong("expected a size in shape");
      if (shape.size() == kHighestRank) return wrong("more than 64 dimensions");
      shape.push_back(*size);
      text_.remove_prefix(digits);
      if (text_.starts_with('L')) text_.remove_prefix(1);  // written by Python 2
      if (!accept(',')) {
        XYNTRA_CHECK_OK(expect(')'));
        break;
      }
    }
    return shape;
  }

  std::string_view text_;
};

}  // namespace

Result<std::size_t> npy_header_size(std::span<const std::byte> start) {
  XYNTRA_TRY(const Preamble preamble, read_preamble(start));
  return preamble.dictionary_offset + preamble.dictionary_size;
}

Result<NpyHeader> parse_npy_header(std::span<const std::byte> bytes) {
  XYNTRA_TRY(const Preamble preamble, read_preamble(bytes));
  if (bytes.size() - preamble.dictionary_offset < preamble.dictionary_size) {
    return bad_model("the .npy header is cut off");
  }
  const auto dictionary = bytes.subspan(preamble.dictionary_offset, preamble.dictionary_size);
  DictionaryReader reader({reinterpret_cast<const char*>(dictionary.data()), dictionary.size()});
  XYNTRA_TRY(NpyHeader header, reader.read());
  header.data_offset = preamble.dictionary_offset + preamble.dictionary_size;
  return header;
}

std::string write_npy_header(std::string_view descr, std::span<const std::int64_t> shape) {
  std::string dictionary = "{'descr': '" + std::string(descr) + "', 'fortran_order': False, 'shape': (";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    dictionary += (i > 0 ? " " : "") + std::to_string(shape[i]);
    if (i + 1 < shape.size() || i == 0) dictionary += ",";
  }
  dictionary += "), }";
  const std::size_t unpadded = 10 + dictionary.size() + 1;
  dictionary.append((64 - unpadded % 64) % 64, ' ');
  dictionary += '\n';
  std::string header(kMagic);
  header += {'\x01', '\x00', static_cast<char>(dictionary.size() & 0xff),
             static_cast<char>(dictionary.size() >> 8)};
  return header + dictionary;
}

}  // namespace xyntra
