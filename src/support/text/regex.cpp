#include "support/text/regex.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "support/text/letter_case.h"
#include "support/text/text.h"
#include "support/text/utf8.h"

namespace xyntra {
namespace {

using Range = Regex::Range;
using Step = Regex::Step;

constexpr std::size_t kMostSteps = 20'000;
constexpr int kDeepest = 64;
constexpr int kMostRepeats = 1000;
constexpr char32_t kNone = 0xffffffff, kLast = 0x10ffff;

struct NamedClass {
  std::string_view name;
  std::array<Range, 4> ranges;
  std::size_t count;
};
constexpr NamedClass kClasses[] = {
    {"alnum", {{{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}}, 3},
    {"alpha", {{{'A', 'Z'}, {'a', 'z'}}}, 2},
    {"ascii", {{{0, 0x7f}}}, 1},
    {"blank", {{{'\t', '\t'}, {' ', ' '}}}, 2},
    {"cntrl", {{{0, 0x1f}, {0x7f, 0x7f}}}, 2},
    {"digit", {{{'0', '9'}}}, 1},
    {"graph", {{{'!', '~'}}}, 1},
    {"lower", {{{'a', 'z'}}}, 1},
    {"print", {{{' ', '~'}}}, 1},
    {"punct", {{{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}}, 4},
    {"space", {{{'\t', '\r'}, {' ', ' '}}}, 2},
    {"upper", {{{'A', 'Z'}}}, 1},
    {"word", {{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}}, 4},
    {"xdigit", {{{'0', '9'}, {'A', 'F'}, {'a', 'f'}}}, 3},
    {"perl space", {{{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}}}, 3},
};

std::span<const Range> class_named(std::string_view name) {
  const auto row = std::ranges::find(kClasses, name, &NamedClass::name);
  return row == std::end(kClasses) ? std::span<const Range>() : std::span(row->ranges).first(row->count);
}

struct EscapedClass {
  char letter;
  std::string_view name;
};
constexpr EscapedClass kEscapedClasses[] = {{'d', "digit"}, {'w', "word"}, {'s', "perl space"}};

struct EscapedCharacter {
  char letter;
  char32_t character;
};
constexpr EscapedCharacter kEscapedCharacters[] = {{'a', 7},    {'f', '\f'}, {'t', '\t'},
                                                   {'n', '\n'}, {'r', '\r'}, {'v', '\v'}};

struct EscapedPlace {
  char letter;
  Step::Place place;
};
constexpr EscapedPlace kEscapedPlaces[] = {{'A', Step::Place::TextBegin},
                                           {'z', Step::Place::TextEnd},
                                           {'b', Step::Place::WordEdge},
                                           {'B', Step::Place::NoWordEdge}};

// All characters that are in none of the ranges.
std::vector<Range> without(std::vector<Range> ranges) {
  std::ranges::sort(ranges, {}, &Range::first);
  std::vector<Range> rest;
  char32_t next = 0;
  for (const Range& range : ranges) {
    if (range.first > next) rest.push_back({next, range.first - 1});
    next = std::max<char32_t>(next, range.last + 1);
  }
  if (next <= kLast) rest.push_back({next, kLast});
  return rest;
}

Step step_of(Step::Kind kind) {
  Step step;
  step.kind = kind;
  return step;
}

// A part of the pattern: the steps [begin, end of all), entered at `first`, left through every open end.
struct Part {
  std::uint32_t first = 0;
  std::vector<std::uint32_t> open;  // twice a step's number, and one more where it is its other way
};

// Reads the pattern and writes its steps as it goes. Recursion is as deep as groups are nested.
class Compiler {
 public:
  explicit Compiler(std::string_view pattern) : pattern_(pattern), rest_(pattern) {}

  Result<std::vector<Step>> run() {
    const std::uint32_t start =
        add(step_of(Step::Kind::Fork));  // the first step; goes to where the pattern begins
    XYNTRA_TRY(const Part whole, alternatives(0));
    if (!rest_.empty()) return wrong("there is no group to close");
    steps_[start].next = steps_[start].other = whole.first;
    connect(whole.open, add(step_of(Step::Kind::Match)));
    if (too_many_) return limit_error("the pattern has more than " + std::to_string(kMostSteps) + " steps");
    return std::move(steps_);
  }

 private:
  struct Flags {
    bool any_case = false, dot_is_all = false, lines = false;
  };

  tl::unexpected<Error> wrong(const std::string& what) const {
    return bad_model("the pattern is no regular expression that RE2 takes: " + what + ", at byte " +
                     std::to_string(pattern_.size() - rest_.size()));
  }

  // ---- steps
  std::uint32_t add(Step step) {
    if (steps_.size() >= kMostSteps) {
      too_many_ = true;
      return 0;
    }
    steps_.push_back(std::move(step));
    return static_cast<std::uint32_t>(steps_.size() - 1);
  }
  void connect(const std::vector<std::uint32_t>& open, std::uint32_t to) {
    for (std::uint32_t end : open) (end % 2 == 0 ? steps_[end / 2].next : steps_[end / 2].other) = to;
  }
  Part single(Step step) {
    const std::uint32_t made = add(std::move(step));
    return {made, {made * 2}};
  }
  Part nothing() {
    const std::uint32_t fork = add(step_of(Step::Kind::Fork));
    return {fork, {fork * 2, fork * 2 + 1}};
  }
  Part one_of(std::vector<Range> ranges) {
    Step step = step_of(Step::Kind::Character);
    step.any_case = flags_.any_case;
    step.ranges = std::move(ranges);
    return single(std::move(step));
  }
  Part then(Part a, Part b) {
    connect(a.open, b.first);
    return {a.first, std::move(b.open)};
  }

  // ---- the grammar
  Result<Part> alternatives(int depth) {
    if (depth > kDeepest) return limit_error("groups of the pattern are nested deeper than 64");
    XYNTRA_TRY(Part part, sequence(depth));
    while (accept("|")) {
      XYNTRA_TRY(Part other, sequence(depth));
      const std::uint32_t fork = add(step_of(Step::Kind::Fork));
      if (!too_many_) {
        steps_[fork].next = part.first;
        steps_[fork].other = other.first;
      }
      part.first = fork;
      part.open.insert(part.open.end(), other.open.begin(), other.open.end());
    }
    return part;
  }

  Result<Part> sequence(int depth) {
    Part part = nothing();
    while (!rest_.empty() && rest_[0] != '|' && rest_[0] != ')' && !too_many_) {
      const std::string_view written = rest_;
      const Flags before = flags_;
      XYNTRA_TRY(std::optional<Part> one, element(depth));
      if (!one) continue;
      XYNTRA_TRY(Part repeated, repetitions(std::move(*one), written.substr(0, written.size() - rest_.size()),
                                            before, depth));
      part = then(std::move(part), std::move(repeated));
    }
    if (too_many_) return limit_error("the pattern has more than " + std::to_string(kMostSteps) + " steps");
    return part;
  }

  // Nothing where only flags change.
  Result<std::optional<Part>> element(int depth) {
    if (accept("(")) return group(depth);
    if (accept("[")) return bracketed();
    if (accept("."))
      return flags_.dot_is_all ? one_of({{0, kLast}}) : one_of({{0, '\n' - 1}, {'\n' + 1, kLast}});
    if (accept("^")) return place(flags_.lines ? Step::Place::LineBegin : Step::Place::TextBegin);
    if (accept("$")) return place(flags_.lines ? Step::Place::LineEnd : Step::Place::TextEnd);
    if (accept("\\")) return escaped();
    if (std::string_view("*+?").find(rest_[0]) != std::string_view::npos)
      return wrong("there is nothing to repeat");
    XYNTRA_TRY(const char32_t code, character());
    return one_of({{code, code}});
  }

  Part place(Step::Place where) {
    Step step = step_of(Step::Kind::Place);
    step.place = where;
    return single(std::move(step));
  }

  Result<std::optional<Part>> group(int depth) {
    const Flags outer = flags_;
    if (accept("?")) {
      const bool named = accept("P<") || (rest_.starts_with("<") && !rest_.starts_with("<=") &&
                                          !rest_.starts_with("<!") && accept("<"));
      if (named) {
        const std::size_t end = rest_.find('>');
        if (end == std::string_view::npos || end == 0) return wrong("a group has no name");
        rest_.remove_prefix(end + 1);
      } else {
        XYNTRA_TRY(const bool closed, change_flags());
        if (closed) return std::nullopt;
      }
    }
    XYNTRA_TRY(Part inside, alternatives(depth + 1));
    if (!accept(")")) return wrong("a group is not closed");
    flags_ = outer;
    return inside;
  }

  // (?i) or (?i: ; true where the group ends at once.
  Result<bool> change_flags() {
    bool on = true;
    Flags changed = flags_;
    while (!rest_.empty()) {
      const char letter = rest_[0];
      rest_.remove_prefix(1);
      if (letter == ':' || letter == ')') {
        flags_ = changed;
        return letter == ')';
      }
      switch (letter) {
        case '-': on = false; break;
        case 'i': changed.any_case = on; break;
        case 's': changed.dot_is_all = on; break;
        case 'm': changed.lines = on; break;
        case 'U': break;  // which match is found first is of no matter for a whole text
        default: return wrong("a group of this kind is not known");
      }
    }
    return wrong("a group is not closed");
  }

  // ---- repetition. Repeating means reading the element again, as often as it stands.
  Result<Part> repetitions(Part one, std::string_view written, const Flags& flags, int depth) {
    std::optional<std::pair<int, int>> times = repeat();
    if (!times) return one;
    if (times->first > kMostRepeats || times->second > kMostRepeats ||
        (times->second >= 0 && times->second < times->first))
      return wrong("this cannot be repeated so often");
    accept("?");
    if (repeat()) return wrong("a repetition is repeated");
    const auto again = [&]() -> Result<Part> {
      const std::string_view after = std::exchange(rest_, written);
      const Flags now = std::exchange(flags_, flags);
      XYNTRA_TRY(std::optional<Part> made, element(depth));
      rest_ = after;
      flags_ = now;
      return std::move(*made);
    };
    const auto [least, most] = *times;
    std::optional<Part> whole, first = std::move(one);
    const auto next = [&]() -> Result<Part> {
      if (!first) return again();
      Part made = std::move(*first);
      first.reset();
      return made;
    };
    const auto append = [&](Part part) {
      whole = whole ? then(std::move(*whole), std::move(part)) : std::move(part);
    };
    for (int i = 0; i < least && !too_many_; ++i) {
      XYNTRA_TRY(Part part, next());
      append(std::move(part));
    }
    if (most < 0) {
      XYNTRA_TRY(Part part, next());
      append(any_number(std::move(part)));
    }
    for (int i = least; i < most && !too_many_; ++i) {
      XYNTRA_TRY(Part part, next());
      append(perhaps(std::move(part)));
    }
    if (too_many_) return limit_error("the pattern has more than " + std::to_string(kMostSteps) + " steps");
    return whole ? std::move(*whole) : nothing();
  }

  Part any_number(Part part) {
    const std::uint32_t fork = add(step_of(Step::Kind::Fork));
    if (too_many_) return part;
    steps_[fork].next = part.first;
    connect(part.open, fork);
    return {fork, {fork * 2 + 1}};
  }
  Part perhaps(Part part) {
    const std::uint32_t fork = add(step_of(Step::Kind::Fork));
    if (too_many_) return part;
    steps_[fork].next = part.first;
    part.open.push_back(fork * 2 + 1);
    return {fork, std::move(part.open)};
  }

  // (least, most), most being -1 where there is no end to it. A brace that begins no repetition is a character.
  std::optional<std::pair<int, int>> repeat() {
    if (accept("*")) return std::pair(0, -1);
    if (accept("+")) return std::pair(1, -1);
    if (accept("?")) return std::pair(0, 1);
    const std::size_t end = rest_.starts_with('{') ? rest_.find('}') : std::string_view::npos;
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view inside = rest_.substr(1, end - 1);
    const std::size_t comma = inside.find(',');
    const auto number = [](std::string_view digits) -> std::optional<int> {
      const auto value = parse_u64(digits);
      if (!value) return std::nullopt;
      return static_cast<int>(std::min<std::uint64_t>(*value, kMostRepeats + 1));
    };
    const auto least = number(inside.substr(0, comma));
    if (!least) return std::nullopt;
    std::optional<int> most = least;
    if (comma != std::string_view::npos)
      most = comma + 1 == inside.size() ? std::optional(-1) : number(inside.substr(comma + 1));
    if (!most) return std::nullopt;
    rest_.remove_prefix(end + 1);
    return std::pair(*least, *most);
  }

  // ---- characters
  bool accept(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }

  Result<char32_t> character() {
    const auto next = first_character(rest_);
    if (!next) return wrong("it is not UTF-8");
    rest_.remove_prefix(next->size);
    return next->code_point;
  }

  // Behind a backslash, of what stands for one or more characters.
  Result<std::vector<Range>> escaped_ranges() {
    if (rest_.empty()) return wrong("nothing follows a backslash");
    const char letter = rest_[0];
    for (const EscapedClass& row : kEscapedClasses) {
      if (letter != row.letter && letter != row.letter - 'a' + 'A') continue;
      rest_.remove_prefix(1);
      const auto named = class_named(row.name);
      std::vector<Range> ranges(named.begin(), named.end());
      return letter == row.letter ? ranges : without(std::move(ranges));
    }
    XYNTRA_TRY(const char32_t code, escaped_character());
    return std::vector<Range>{{code, code}};
  }

  Result<char32_t> escaped_character() {
    XYNTRA_TRY(const char32_t letter, character());
    for (const EscapedCharacter& row : kEscapedCharacters) {
      if (letter == static_cast<char32_t>(row.letter)) return row.character;
    }
    if (letter == 'x') {
      const bool braces = accept("{");
      const std::size_t end = braces ? rest_.find('}') : std::size_t{2};
      const auto code = end > rest_.size() ? std::nullopt : parse_hexadecimal(rest_.substr(0, end));
      if (!code || *code > kLast) return wrong("\\x is not followed by a character's number");
      rest_.remove_prefix(end + (braces ? 1 : 0));
      return static_cast<char32_t>(*code);
    }
    if (letter >= 0x80 || (letter >= '0' && letter <= '9') || (letter >= 'a' && letter <= 'z') ||
        (letter >= 'A' && letter <= 'Z'))
      return wrong("what follows a backslash has no meaning, or one that is not supported");
    return letter;
  }

  Result<std::optional<Part>> escaped() {
    for (const EscapedPlace& row : kEscapedPlaces) {
      if (rest_.empty() || rest_[0] != row.letter) continue;
      rest_.remove_prefix(1);
      return place(row.place);
    }
    if (accept("Q")) {
      Part part = nothing();
      while (!rest_.empty() && !accept("\\E") && !too_many_) {
        XYNTRA_TRY(const char32_t code, character());
        part = then(std::move(part), one_of({{code, code}}));
      }
      return part;
    }
    XYNTRA_TRY(std::vector<Range> ranges, escaped_ranges());
    return one_of(std::move(ranges));
  }

  // The rest of a class; the bracket was taken.
  Result<std::optional<Part>> bracketed() {
    const bool negated = accept("^");
    std::vector<Range> ranges;
    for (bool first = true; first || !accept("]"); first = false) {
      if (rest_.empty()) return wrong("a class is not closed");
      if (rest_.starts_with("[:")) {
        XYNTRA_TRY(const std::vector<Range> named, named_class());
        ranges.insert(ranges.end(), named.begin(), named.end());
        continue;
      }
      XYNTRA_TRY(std::vector<Range> item, class_item());
      const bool is_one = item.size() == 1 && item[0].first == item[0].last;
      if (is_one && rest_.starts_with('-') && !rest_.starts_with("-]")) {
        rest_.remove_prefix(1);
        if (rest_.empty()) return wrong("a class is not closed");
        XYNTRA_TRY(const std::vector<Range> last, class_item());
        if (last.size() != 1 || last[0].first != last[0].last || last[0].first < item[0].first)
          return wrong("a range ends before it begins");
        item[0].last = last[0].first;
      }
      ranges.insert(ranges.end(), item.begin(), item.end());
    }
    Step step = step_of(Step::Kind::Character);
    step.negated = negated;
    step.any_case = flags_.any_case;
    step.ranges = std::move(ranges);
    return single(std::move(step));
  }

  Result<std::vector<Range>> class_item() {
    if (accept("\\")) return escaped_ranges();
    XYNTRA_TRY(const char32_t code, character());
    return std::vector<Range>{{code, code}};
  }

  Result<std::vector<Range>> named_class() {
    const std::size_t end = rest_.find(":]");
    if (end == std::string_view::npos) return wrong("a class is not closed");
    std::string_view name = rest_.substr(2, end - 2);
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    const auto found = class_named(name);
    if (found.empty() || name.find(' ') != std::string_view::npos)
      return wrong("there is no class of this name");
    rest_.remove_prefix(end + 2);
    std::vector<Range> ranges(found.begin(), found.end());
    return negated ? without(std::move(ranges)) : ranges;
  }

  std::string_view pattern_, rest_;
  Flags flags_;
  std::vector<Step> steps_;
  bool too_many_ = false;
};

bool is_word(char32_t code) {
  return code == '_' || (code >= '0' && code <= '9') || (code >= 'A' && code <= 'Z') ||
         (code >= 'a' && code <= 'z');
}

bool is_in(const std::vector<Range>& ranges, char32_t code) {
  return std::ranges::any_of(
      ranges, [code](const Range& range) { return code >= range.first && code <= range.last; });
}

bool takes(const Step& step, char32_t code) {
  bool found = is_in(step.ranges, code);
  if (!found && step.any_case) {
    found = is_in(step.ranges, in_case(code, LetterCase::Lower)) ||
            is_in(step.ranges, in_case(code, LetterCase::Upper));
  }
  return found != step.negated;
}

}  // namespace

Result<Regex> Regex::compile(std::string_view pattern) {
  if (!is_utf8(pattern)) return bad_model("the pattern is not UTF-8");
  Regex regex;
  XYNTRA_TRY(regex.steps_, Compiler(pattern).run());
  return regex;
}

Regex::Matcher::Matcher(const Regex& regex) : steps_(regex.steps_), seen_(regex.steps_.size(), 0) {}

// Follows what takes no character, to the steps that do.
void Regex::Matcher::reach(std::uint32_t start, const Around& around) {
  pending_.assign(1, start);
  const auto holds = [&around](Step::Place place) {
    const bool begin = around.before == kNone, end = around.after == kNone;
    const bool edge = (!begin && is_word(around.before)) != (!end && is_word(around.after));
    switch (place) {
      case Step::Place::TextBegin: return begin;
      case Step::Place::TextEnd: return end;
      case Step::Place::LineBegin: return begin || around.before == '\n';
      case Step::Place::LineEnd: return end || around.after == '\n';
      case Step::Place::WordEdge: return edge;
      case Step::Place::NoWordEdge: return !edge;
    }
    return false;
  };
  while (!pending_.empty()) {
    const std::uint32_t number = pending_.back();
    pending_.pop_back();
    if (std::exchange(seen_[number], character_) == character_) continue;
    const Step& step = steps_[number];
    switch (step.kind) {
      case Step::Kind::Character: reached_.push_back(number); break;
      case Step::Kind::Match: matched_ = true; break;
      case Step::Kind::Fork:
        pending_.push_back(step.next);
        pending_.push_back(step.other);
        break;
      case Step::Kind::Place:
        if (holds(step.place)) pending_.push_back(step.next);
        break;
    }
  }
}

Result<bool> Regex::Matcher::full_match(std::string_view text,
                                        const std::function<Status(std::int64_t)>& worked) {
  char32_t before = kNone;
  std::vector<std::uint32_t> starts{0};
  while (true) {
    const auto next = first_character(text);
    if (!next && !text.empty()) return bad_model("a string is not UTF-8");
    const char32_t code = next ? next->code_point : kNone;
    ++character_;
    matched_ = false;
    reached_.clear();
    for (std::uint32_t start : starts) reach(start, {before, code});
    XYNTRA_CHECK_OK(worked(1 + static_cast<std::int64_t>(reached_.size())));
    if (!next) return matched_;
    starts.clear();
    for (std::uint32_t number : reached_) {
      if (takes(steps_[number], code)) starts.push_back(steps_[number].next);
    }
    if (starts.empty()) return false;
    before = code;
    text.remove_prefix(next->size);
  }
}

}  // namespace xyntra
