#include "frontends/torchscript/archive/pickle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <set>

#include "support/limits/current_budget.h"
#include "support/text/text.h"

namespace xyntra::torchscript {

const char* name_of(PickleValue::Kind kind) {
  using enum PickleValue::Kind;
  switch (kind) {
    case None: return "None";
    case Bool: return "a bool";
    case Integer: return "an integer";
    case Real: return "a float";
    case Text: return "a string";
    case Tuple: return "a tuple";
    case List: return "a list";
    case Dict: return "a dict";
    case Global: return "a class or function";
    case Storage: return "a storage";
    case Tensor: return "a tensor";
    case Device: return "a device";
    case Object: return "an object";
  }
  internal_error("name_of: no such kind of pickled value");
}

namespace {

using Kind = PickleValue::Kind;
constexpr std::byte kProtocolByte{0x80}, kStopByte{'.'};
constexpr std::uint64_t kNewestProtocol = 2;  // the one torch writes
constexpr std::size_t kMostValues = 1'000'000;  // a hundred bytes each, where the pickle may have one

enum class Operand : std::uint8_t {
  None,
  Signed4,
  Unsigned1,
  Unsigned2,
  Unsigned4,
  Real8,
  Bytes1,  // a length of 1 byte, then so many
  Bytes4,  // of 4 bytes
  TwoLines,
};

enum class Meaning : std::uint8_t { First, EmptyDict, Tensor, Device };

struct Function {
  std::string_view module, name;
  Meaning meaning;
  std::size_t fewest, most;
};
constexpr Function kFunctions[] = {
#define FUNCTION(module, name, meaning, fewest, most) {module, name, Meaning::meaning, fewest, most},
#include "frontends/torchscript/archive/pickle_functions.def"
#undef FUNCTION
};

class PickleReader {
 public:
  explicit PickleReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  Result<Pickle> read() {
    XYNTRA_CHECK_OK(read_header());
    while (true) {
      poll_limits();
      opcode_at_ = at_;
      if (at_ >= bytes_.size()) return error("the pickle ends without STOP");
      const std::byte byte = bytes_[at_++];
      if (byte == kStopByte) break;
      if (pickle_.values.size() >= kMostValues)
        return error("more than " + std::to_string(kMostValues) + " values", ErrorClass::Limit);
      XYNTRA_CHECK_OK(step(byte));
    }
    if (at_ != bytes_.size()) return error("bytes follow the end of the pickle");
    if (stack_.size() != 1 || !marks_.empty()) return error("STOP with more than one value on the stack");
    pickle_.root = stack_.back();
    XYNTRA_CHECK_OK(check_acyclic());
    XYNTRA_CHECK_OK(check_keys());
    return std::move(pickle_);
  }

 private:
  struct Opcode {
    const char* name;
    std::uint8_t byte;
    Operand operand;
    Status (PickleReader::*action)();
  };
  static const Opcode* opcode_of(std::byte byte);

  tl::unexpected<Error> error(const std::string& message, ErrorClass error_class = ErrorClass::BadModel) {
    return error_at(opcode_at_, message, error_class);
  }
  static tl::unexpected<Error> error_at(std::size_t offset, const std::string& message,
                                        ErrorClass error_class = ErrorClass::BadModel) {
    return failure(error_class, "byte " + std::to_string(offset) + ": " + message);
  }

  Status read_header() {
    if (bytes_.size() < 2 || bytes_[0] != kProtocolByte) return error("not a pickle");
    const auto protocol = std::to_integer<std::uint64_t>(bytes_[1]);
    if (protocol != kNewestProtocol)
      return error("pickle protocol " + std::to_string(protocol) + ", where torch writes 2",
                   ErrorClass::Unsupported);
    at_ = 2;
    return {};
  }

  Status step(std::byte byte) {
    const Opcode* opcode = opcode_of(byte);
    if (opcode == nullptr) {
      return error("opcode " + std::to_string(std::to_integer<int>(byte)) +
                       " is none that torch.jit.save writes; nothing is executed",
                   ErrorClass::Unsupported);
    }
    XYNTRA_CHECK_OK(read_operand(opcode->operand));
    Status done = (this->*opcode->action)();
    if (!done && done.error().message.empty())
      return error(std::string(opcode->name) + " with too few values on the stack");
    return done;
  }

  // ---- operands
  Result<std::span<const std::byte>> take(std::uint64_t count) {
    if (count > bytes_.size() - at_) return error("the pickle is cut short");
    const auto part = bytes_.subspan(at_, static_cast<std::size_t>(count));
    at_ += part.size();
    return part;
  }

  static std::uint64_t little_endian(std::span<const std::byte> bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
    return value;
  }

  Result<std::uint64_t> take_number(std::size_t size) {
    XYNTRA_TRY(const auto part, take(size));
    return little_endian(part);
  }

  Status take_text(std::size_t length_size) {
    XYNTRA_TRY(const std::uint64_t length, take_number(length_size));
    XYNTRA_TRY(const auto part, take(length));
    text_ = {reinterpret_cast<const char*>(part.data()), part.size()};
    return {};
  }

  Status take_line(std::string_view& line) {
    const auto rest = bytes_.subspan(at_);
    const auto end = std::ranges::find(rest, std::byte{'\n'});
    if (end == rest.end()) return error("the pickle is cut short");
    const auto length = static_cast<std::size_t>(end - rest.begin());
    line = {reinterpret_cast<const char*>(rest.data()), length};
    at_ += length + 1;
    return {};
  }

  Status read_operand(Operand operand) {
    switch (operand) {
      case Operand::None: return {};
      case Operand::Unsigned1: return number_operand(1);
      case Operand::Unsigned2: return number_operand(2);
      case Operand::Unsigned4: return number_operand(4);
      case Operand::Signed4: {
        XYNTRA_CHECK_OK(number_operand(4));
        number_ = static_cast<std::int32_t>(number_);
        return {};
      }
      case Operand::Real8: {
        XYNTRA_TRY(const auto part, take(8));
        std::uint64_t bits = 0;  // big-endian, alone among the operands
        for (std::byte byte : part) bits = bits << 8 | std::to_integer<std::uint64_t>(byte);
        real_ = std::bit_cast<double>(bits);
        return {};
      }
      case Operand::Bytes1: return take_text(1);
      case Operand::Bytes4: return take_text(4);
      case Operand::TwoLines: {
        XYNTRA_CHECK_OK(take_line(text_));
        return take_line(name_);
      }
    }
    internal_error("read_operand: no such operand");
  }

  Status number_operand(std::size_t size) {
    XYNTRA_TRY(const std::uint64_t value, take_number(size));
    number_ = static_cast<std::int64_t>(value);
    return {};
  }

  // ---- the stack
  static Status too_few() { return failure(ErrorClass::BadModel, ""); }  // step() says of which opcode

  PickleId push(Kind kind) {
    PickleValue value;
    value.kind = kind;
    value.offset = opcode_at_;
    pickle_.values.push_back(std::move(value));
    stack_.emplace_back(pickle_.values.size() - 1);
    return stack_.back();
  }
  PickleValue& value(PickleId id) { return pickle_.values[id.index]; }

  // How many values an opcode may take: those above the last mark.
  std::size_t available() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }

  std::vector<PickleId> pop(std::size_t count) {
    std::vector<PickleId> items(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return items;
  }

  Result<std::vector<PickleId>> pop_to_mark() {
    if (marks_.empty()) return tl::unexpected<Error>(too_few().error());
    std::vector<PickleId> items = pop(available());
    marks_.pop_back();
    return items;
  }

  // ---- values
  Status none() { return push(Kind::None), Status(); }
  Status new_true() { return value(push(Kind::Bool)).integer = 1, Status(); }
  Status new_false() { return push(Kind::Bool), Status(); }
  Status integer() { return value(push(Kind::Integer)).integer = number_, Status(); }
  Status real() { return value(push(Kind::Real)).real = real_, Status(); }

  Status long_integer() {
    if (text_.size() > sizeof(std::int64_t))
      return error("an integer of more than 64 bits", ErrorClass::Unsupported);
    std::uint64_t bits = little_endian(std::as_bytes(std::span(text_)));
    const std::size_t width = 8 * text_.size();
    const bool negative = width > 0 && (bits >> (width - 1) & 1) != 0;
    if (negative && width < 64) bits |= ~std::uint64_t{0} << width;
    value(push(Kind::Integer)).integer = static_cast<std::int64_t>(bits);
    return {};
  }

  Status text() {
    if (!is_utf8(text_)) return error("a string that is not UTF-8");
    value(push(Kind::Text)).text = text_;
    return {};
  }

  Status global() {
    if (!is_utf8(text_) || !is_utf8(name_)) return error("a name that is not UTF-8");
    PickleValue& made = value(push(Kind::Global));
    made.text = text_;
    made.name = name_;
    return {};
  }

  // ---- containers
  Status mark() {
    marks_.push_back(stack_.size());
    return {};
  }
  Status tuple_of(std::size_t count) {
    if (available() < count) return too_few();
    auto items = pop(count);
    value(push(Kind::Tuple)).items = std::move(items);
    return {};
  }
  Status empty_tuple() { return tuple_of(0); }
  Status tuple1() { return tuple_of(1); }
  Status tuple2() { return tuple_of(2); }
  Status tuple3() { return tuple_of(3); }
  Status tuple() {
    XYNTRA_TRY(auto items, pop_to_mark());
    value(push(Kind::Tuple)).items = std::move(items);
    return {};
  }
  Status empty_list() { return push(Kind::List), Status(); }
  Status empty_dict() { return push(Kind::Dict), Status(); }

  Status extend(Kind kind, const std::vector<PickleId>& items) {
    if (available() < 1) return too_few();
    PickleValue& target = value(stack_.back());
    if (target.kind != kind) return error("items for " + std::string(name_of(target.kind)));
    target.items.insert(target.items.end(), items.begin(), items.end());
    return {};
  }
  Status append() {
    if (available() < 2) return too_few();
    return extend(Kind::List, pop(1));
  }
  Status appends() {
    XYNTRA_TRY(const auto items, pop_to_mark());
    return extend(Kind::List, items);
  }
  Status set_item() {
    if (available() < 3) return too_few();
    return extend(Kind::Dict, pop(2));
  }
  Status set_items() {
    XYNTRA_TRY(const auto items, pop_to_mark());
    if (items.size() % 2 != 0) return error("a key without a value");
    return extend(Kind::Dict, items);
  }

  // ---- the memo, whose places are taken one after another
  Status put() {
    if (available() < 1) return too_few();
    const auto place = static_cast<std::size_t>(number_);
    if (place > memo_.size())
      return error("place " + std::to_string(place) + " of the memo before those below it");
    if (place == memo_.size()) memo_.push_back(stack_.back());
    memo_[place] = stack_.back();
    return {};
  }
  Status get() {
    const auto place = static_cast<std::size_t>(number_);
    if (place >= memo_.size())
      return error("place " + std::to_string(place) + " of the memo, which is empty");
    stack_.push_back(memo_[place]);
    return {};
  }

  // ---- storages, tensors and objects
  Status persistent_id() {
    if (available() < 1) return too_few();
    if (value(stack_.back()).kind != Kind::Tuple) return error("a persistent id that is no tuple");
    auto items = pop(1);
    value(push(Kind::Storage)).items = std::move(items);
    return {};
  }

  Status reduce() {
    if (available() < 2) return too_few();
    const std::vector<PickleId> call = pop(2);
    const PickleValue& callee = value(call[0]);
    if (callee.kind != Kind::Global) return error(std::string(name_of(callee.kind)) + " is called");
    const PickleValue& arguments = value(call[1]);
    if (arguments.kind != Kind::Tuple) return error("the arguments of a call are no tuple");
    const auto* function = std::ranges::find_if(kFunctions, [&](const Function& one) {
      return one.module == callee.text && one.name == callee.name;
    });
    if (function == std::end(kFunctions)) {
      return error("the pickle calls " + std::string(callee.text) + "." + std::string(callee.name) +
                       ": nothing is executed, and it stands for no value that is known",
                   ErrorClass::Unsupported);
    }
    if (arguments.items.size() < function->fewest || arguments.items.size() > function->most) {
      return error(std::string(function->module) + "." + std::string(function->name) + " with " +
                   std::to_string(arguments.items.size()) + " arguments");
    }
    std::vector<PickleId> items = arguments.items;
    switch (function->meaning) {
      case Meaning::First: stack_.push_back(items[0]); return {};
      case Meaning::EmptyDict: push(Kind::Dict); return {};
      case Meaning::Tensor: value(push(Kind::Tensor)).items = std::move(items); return {};
      case Meaning::Device: value(push(Kind::Device)).items = std::move(items); return {};
    }
    internal_error("reduce: no such meaning");
  }

  Status new_object() {
    if (available() < 2) return too_few();
    const std::vector<PickleId> call = pop(2);
    const PickleValue type = value(call[0]);
    const PickleValue& arguments = value(call[1]);
    if (type.kind != Kind::Global || arguments.kind != Kind::Tuple || !arguments.items.empty())
      return error("NEWOBJ of something that is no class, or with arguments");
    if (type.text != "__torch__" && !type.text.starts_with("__torch__.")) {
      return error("the pickle makes an object of " + std::string(type.text) + "." + std::string(type.name) +
                       ": only classes of the model itself (__torch__) are known",
                   ErrorClass::Unsupported);
    }
    PickleValue& made = value(push(Kind::Object));
    made.text = type.text;
    made.name = type.name;
    return {};
  }

  Status build() {
    if (available() < 2) return too_few();
    auto state = pop(1);
    PickleValue& object = value(stack_.back());
    if (object.kind != Kind::Object) return error("BUILD of " + std::string(name_of(object.kind)));
    if (!object.items.empty()) return error("BUILD of an object that has its state");
    object.items = std::move(state);
    return {};
  }

  // A list may be put into itself. Whoever walks a tree must come to an end.
  Status check_acyclic() const {
    enum class Seen : std::uint8_t { No, Open, Done };
    std::vector<Seen> seen(pickle_.values.size(), Seen::No);
    std::vector<std::pair<PickleId, std::size_t>> path{{pickle_.root, 0}};
    seen[pickle_.root.index] = Seen::Open;
    while (!path.empty()) {
      auto& [id, next] = path.back();
      const PickleValue& here = pickle_[id];
      if (next == here.items.size()) {
        seen[id.index] = Seen::Done;
        path.pop_back();
        continue;
      }
      const PickleId child = here.items[next++];
      if (seen[child.index] == Seen::Open) return error_at(here.offset, "a value that holds itself");
      if (seen[child.index] == Seen::No) {
        seen[child.index] = Seen::Open;
        path.emplace_back(child, 0);
      }
    }
    return {};
  }

  Status check_keys() const {
    for (const PickleValue& dict : pickle_.values) {
      if (dict.kind != Kind::Dict) continue;
      std::set<std::string_view> texts;
      std::set<std::int64_t> integers;
      for (std::size_t i = 0; i < dict.items.size(); i += 2) {
        const PickleValue& key = pickle_[dict.items[i]];
        const bool is_text = key.kind == Kind::Text;
        if (!is_text && key.kind != Kind::Integer)
          return error_at(key.offset, std::string(name_of(key.kind)) + " as a key", ErrorClass::Unsupported);
        if (!(is_text ? texts.insert(key.text).second : integers.insert(key.integer).second))
          return error_at(key.offset, "a key that the dict has already");
      }
    }
    return {};
  }

  std::span<const std::byte> bytes_;
  std::size_t at_ = 0, opcode_at_ = 0;
  std::int64_t number_ = 0;  // the operand of the opcode at hand
  double real_ = 0;
  std::string_view text_, name_;
  std::vector<PickleId> stack_, memo_;
  std::vector<std::size_t> marks_;
  Pickle pickle_;
};

const PickleReader::Opcode* PickleReader::opcode_of(std::byte byte) {
  static constexpr Opcode kOpcodes[] = {
#define OPCODE(name, byte, operand, action) {name, byte, Operand::operand, &PickleReader::action},
#include "frontends/torchscript/archive/pickle_opcodes.def"
#undef OPCODE
  };
  static const auto by_byte = [] {
    std::array<const Opcode*, 256> table{};
    for (const Opcode& opcode : kOpcodes) table[opcode.byte] = &opcode;
    return table;
  }();
  return by_byte[std::to_integer<std::size_t>(byte)];
}

}  // namespace

Result<Pickle> read_pickle(std::span<const std::byte> bytes) { return PickleReader(bytes).read(); }

}  // namespace xyntra::torchscript
