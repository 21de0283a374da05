#include <array>
#include <optional>

#include "ir/text_parser.h"
#include "ir/text_reader.h"
#include "plan/text.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

constexpr std::int64_t kMostRecords = 4'000'000;  // groups, edges, buffers and slots together

// The enumerator of this name, `last` being the last one.
template <class Enumeration>
std::optional<Enumeration> named(std::string_view name, Enumeration last) {
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    if (name_of(static_cast<Enumeration>(i)) == name) return static_cast<Enumeration>(i);
  }
  return std::nullopt;
}

// Sections stand in a fixed order, each record on a line of its own.
class Reader : public TokenReader {
 public:
  explicit Reader(std::string_view text) : TokenReader(text) {}

  Result<Lock> run() {
    XYNTRA_CHECK_OK(advance());
    XYNTRA_CHECK_OK(header());
    XYNTRA_CHECK_OK(graphs());
    XYNTRA_CHECK_OK(records("rule", &Reader::certificate));
    XYNTRA_CHECK_OK(records("assume", &Reader::assumption));
    XYNTRA_CHECK_OK(records("group", &Reader::group));
    XYNTRA_CHECK_OK(records("edge", &Reader::edge));
    XYNTRA_CHECK_OK(records("layout", &Reader::layout));
    XYNTRA_CHECK_OK(records("choice", &Reader::choice));
    XYNTRA_CHECK_OK(records("buffer", &Reader::assignment));
    XYNTRA_CHECK_OK(records("slot", &Reader::slot));
    if (current_.is_word("order")) XYNTRA_CHECK_OK(order());
    if (!current_.is_word("end")) return expected(next_sections());
    XYNTRA_CHECK_OK(advance());
    if (current_.kind != Kind::End) return expected("nothing after 'end'");
    return std::move(lock_);
  }

 private:
  // ---- Header
  Status keyword(std::string_view spelling) {
    if (!current_.is_word(spelling)) return expected("'" + std::string(spelling) + "'");
    return advance();
  }

  Status header() {
    if (!current_.is_word("xlock")) return expected("'xlock 4' at the start of the file");
    XYNTRA_CHECK_OK(advance());
    constexpr std::array<std::pair<const char*, const char*>, 3> kOlder{{
        {"1", "which names no forms"},
        {"2", "whose forms lack knobs"},
        {"3", "which names long weights by the hash of all their bytes"},
    }};
    for (const auto& [version, lack] : kOlder) {
      if (current_.is(Kind::Number, version))
        return lexer_.error_at(current_.offset, std::string("the lock is of version ") + version + ", " +
                                                    lack + "; make it again with xyntra lock");
    }
    if (!current_.is(Kind::Number, "4")) return expected("version 4");
    XYNTRA_CHECK_OK(advance());
    XYNTRA_CHECK_OK(keyword("model"));
    XYNTRA_TRY(plan().model_hash, hash());
    XYNTRA_CHECK_OK(keyword("target"));
    XYNTRA_TRY(plan().target, word("the name of the target"));
    XYNTRA_TRY(plan().target_hash, hash());
    XYNTRA_CHECK_OK(keyword("configuration"));
    XYNTRA_TRY(plan().configuration_hash, hash());
    while (current_.is_word("nominal")) {
      XYNTRA_CHECK_OK(advance());
      const std::size_t place = current_.offset;
      XYNTRA_TRY(std::string symbol, word("the name of a symbolic size"));
      XYNTRA_CHECK_OK(expect("=", "after the name of a size"));
      XYNTRA_TRY(std::int64_t size, natural("a size"));
      if (!plan().nominal.emplace(std::move(symbol), size).second)
        return lexer_.error_at(place, "this size is given twice");
    }
    return {};
  }

  // Empty for a plan that was made without one.
  Result<std::string> hash() {
    const std::size_t place = current_.offset;
    XYNTRA_TRY(std::string digits, name(Kind::String, "a hash in quotes"));
    if (!digits.empty() && !is_hash(digits))
      return lexer_.error_at(place, "a hash has 64 digits, 0 to 9 and a to f");
    return digits;
  }

  // ---- Graphs
  Status graphs() {
    XYNTRA_TRY(plan().graph, parse_graph(lexer_, current_, lock_.weights));
    if (!current_.is_word("graph")) return {};
    XYNTRA_TRY(plan().derived_constants, parse_graph(lexer_, current_, lock_.derived_weights));
    if (plan().derived_constants.outputs.empty()) return error("the derived constants before this are none");
    return {};
  }

  Result<ValueId> value(const char* what) {
    const std::size_t place = current_.offset;
    XYNTRA_TRY(std::string text, name(Kind::ValueName, what));
    ValueId id = plan().graph.find(text);
    if (!id.valid()) return lexer_.error_at(place, "the graph has no value %" + printable(text));
    return id;
  }

  Result<NodeId> node() {
    const std::size_t place = current_.offset;
    XYNTRA_TRY(ValueId id, value("a node, by the name of its first output"));
    const NodeId producer = plan().graph.value(id).producer;
    if (!producer.valid())
      return lexer_.error_at(place, "no node computes %" + printable(plan().graph.value(id).name));
    return producer;
  }

  // ---- Records
  std::string next_sections() const {
    std::string text;
    bool later = false;
    for (const char* section :
         {"rule", "assume", "group", "edge", "layout", "choice", "buffer", "slot", "order", "end"}) {
      later = later || section_ == section;
      if (later) text += (text.empty() ? "'" : ", '") + std::string(section) + "'";
    }
    return "one of " + text;
  }

  Status records(const char* section, Status (Reader::*read)()) {
    section_ = section;
    while (current_.is_word(section)) {
      if (++records_ > kMostRecords)
        return lexer_.error_at(current_.offset, "more than 4000000 lines", ErrorClass::Limit);
      XYNTRA_CHECK_OK(advance());
      XYNTRA_CHECK_OK((this->*read)());
    }
    return {};
  }

  template <class Enumeration>
  Result<Enumeration> one_of(Enumeration last, const char* what) {
    std::string known;
    for (int i = 0; i <= static_cast<int>(last); ++i)
      known += (i == 0 ? "" : ", ") + std::string(name_of(static_cast<Enumeration>(i)));
    const Token place = current_;
    XYNTRA_TRY(std::string text, word(what));
    auto found = named(text, last);
    if (!found)
      return lexer_.error_at(
          place.offset, "expected " + std::string(what) + ": " + known + "; found '" + printable(text) + "'");
    return *found;
  }

  Result<std::int64_t> natural(const char* what) {
    const std::size_t place = current_.offset;
    XYNTRA_TRY(std::int64_t number, integer(what));
    if (number < 0) return lexer_.error_at(place, std::string(what) + " cannot be negative");
    return number;
  }

  Result<std::uint32_t> index(const char* what) {
    const std::size_t place = current_.offset;
    XYNTRA_TRY(std::int64_t number, natural(what));
    if (number > kMostRecords) return lexer_.error_at(place, std::string(what) + " is too large");
    return static_cast<std::uint32_t>(number);
  }

  // One size expression in brackets, which have a grammar of their own.
  Result<Dim> size() {
    if (!current_.is_symbol("[")) return expected("a size in brackets");
    const std::size_t place = current_.offset;
    XYNTRA_TRY(auto pieces, lexer_.bracketed());
    if (pieces.size() != 1) return lexer_.error_at(place, "there is one size in these brackets");
    XYNTRA_TRY(Dim dim, parse_size(lexer_, pieces[0]));
    XYNTRA_CHECK_OK(advance());
    return dim;
  }

  Result<std::string> text(const char* what) { return name(Kind::String, what); }

  template <class Item, class Read>
  Status list(const char* where, std::vector<Item>& items, Read read) {
    XYNTRA_CHECK_OK(expect("(", where));
    return list_until(")", where, [&]() -> Status {
      XYNTRA_TRY(Item item, read());
      items.push_back(std::move(item));
      return {};
    });
  }

  Status certificate() {
    CertificateLine line;
    XYNTRA_TRY(line.rule, text("the name of a rule in quotes"));
    XYNTRA_TRY(line.exactness, one_of(Exactness::PrecisionChanging, "how exact it is"));
    XYNTRA_CHECK_OK(keyword("from"));
    XYNTRA_CHECK_OK(list("among the names of nodes", line.origins, [&] { return text("a name in quotes"); }));
    XYNTRA_CHECK_OK(keyword("to"));
    XYNTRA_TRY(line.result, text("the name of a value in quotes"));
    plan().certificate.push_back(std::move(line));
    return {};
  }

  Status assumption() {
    Assumption assumption;
    XYNTRA_TRY(assumption.symbol, word("the name of a symbolic size"));
    XYNTRA_CHECK_OK(expect("=", "after the name of a size"));
    XYNTRA_TRY(assumption.equals, size());
    plan().assumptions.push_back(std::move(assumption));
    return {};
  }

  Status layout() {
    ValueLayout layout;
    XYNTRA_TRY(layout.value, value("a value"));
    const std::size_t place = current_.offset;
    XYNTRA_TRY(const std::string spelling, text("a layout in quotes"));
    auto parsed = parse_layout(spelling);
    if (!parsed) return lexer_.error_at(place, parsed.error().message);
    layout.layout = std::move(*parsed);
    plan().layouts.push_back(std::move(layout));
    return {};
  }

  Status group() {
    Group group;
    XYNTRA_TRY(group.hero, one_of(Hero::Host, "what the group is built around"));
    XYNTRA_CHECK_OK(expect("{", "after the kind of a group"));
    XYNTRA_CHECK_OK(keyword("nodes"));
    XYNTRA_CHECK_OK(list("among the nodes of a group", group.nodes, [&] { return node(); }));
    XYNTRA_CHECK_OK(keyword("inputs"));
    XYNTRA_CHECK_OK(list("among the inputs of a group", group.inputs, [&] { return value("a value"); }));
    XYNTRA_CHECK_OK(keyword("outputs"));
    XYNTRA_CHECK_OK(list("among the outputs of a group", group.outputs, [&] { return value("a value"); }));
    XYNTRA_CHECK_OK(keyword("schedule"));
    XYNTRA_CHECK_OK(schedule(group.schedule));
    if (current_.is_word("forms")) {
      XYNTRA_CHECK_OK(keyword("forms"));
      XYNTRA_CHECK_OK(list("among the forms of a kernel", group.schedule.forms,
                           [&] { return word("the name of a form"); }));
    }
    XYNTRA_CHECK_OK(keyword("bytes_in"));
    XYNTRA_TRY(group.bytes_in, size());
    XYNTRA_CHECK_OK(keyword("bytes_out"));
    XYNTRA_TRY(group.bytes_out, size());
    XYNTRA_CHECK_OK(keyword("flops"));
    XYNTRA_TRY(group.flops, size());
    XYNTRA_CHECK_OK(keyword("scratch"));
    XYNTRA_TRY(group.scratch_bytes, size());
    XYNTRA_CHECK_OK(keyword("predicted_ns"));
    XYNTRA_TRY(group.predicted_ns, natural("a time"));
    XYNTRA_CHECK_OK(keyword("reason"));
    XYNTRA_TRY(group.reason, text("the reason in quotes"));
    XYNTRA_CHECK_OK(expect("}", "at the end of a group"));
    plan().groups.push_back(std::move(group));
    return {};
  }

  Status schedule(Schedule& schedule) {
    const std::size_t at_name = current_.offset;
    XYNTRA_TRY(const std::string name, word("the name of a schedule"));
    const auto kind = schedule_named(name);
    if (!kind) return lexer_.error_at(at_name, "there is no schedule '" + printable(name) + "'");
    schedule.kind = *kind;
    XYNTRA_TRY(schedule.exactness, one_of(Exactness::PrecisionChanging, "how exact it is"));
    XYNTRA_CHECK_OK(expect("{", "before the knobs of a schedule"));
    return list_until("}", "among the knobs of a schedule", [&]() -> Status {
      Knob knob;
      const std::size_t place = current_.offset;
      XYNTRA_TRY(knob.name, word("the name of a knob"));
      if (!schedule.knobs.empty() && schedule.knobs.back().name >= knob.name)
        return lexer_.error_at(place, "knobs are sorted by name, each given once");
      XYNTRA_CHECK_OK(expect("=", "after the name of a knob"));
      XYNTRA_TRY(knob.value, integer("the value of a knob"));
      schedule.knobs.push_back(std::move(knob));
      return {};
    });
  }

  Status edge() {
    EdgeVerdict edge;
    const std::size_t place = current_.offset;
    XYNTRA_TRY(edge.value, value("the value that goes along an edge"));
    edge.from = plan().graph.value(edge.value).producer;
    if (!edge.from.valid())
      return lexer_.error_at(place, "an edge begins at a node, and none computes this value");
    XYNTRA_CHECK_OK(keyword("to"));
    XYNTRA_TRY(edge.to, node());
    XYNTRA_TRY(edge.verdict, one_of(Verdict::Materialised, "a verdict"));
    XYNTRA_TRY(edge.bytes, size());
    XYNTRA_TRY(edge.reason, text("the reason in quotes"));
    plan().edges.push_back(std::move(edge));
    return {};
  }

  Status choice() {
    LayoutChoice choice;
    const auto option = [this](LayoutChoice::Option& one) -> Status {
      XYNTRA_TRY(one.way, one_of(LayoutChoice::Way::Stage, "a way to lay out a value"));
      XYNTRA_TRY(one.ns, natural("a time"));
      return {};
    };
    XYNTRA_TRY(choice.value, value("a value"));
    XYNTRA_CHECK_OK(option(choice.taken));
    XYNTRA_CHECK_OK(keyword("not"));
    XYNTRA_CHECK_OK(option(choice.other));
    XYNTRA_TRY(choice.reason, text("the reason in quotes"));
    plan().choices.push_back(std::move(choice));
    return {};
  }

  Status assignment() {
    BufferAssignment assignment;
    XYNTRA_TRY(assignment.value, value("a value"));
    XYNTRA_TRY(assignment.kind, one_of(BufferAssignment::Kind::View, "where the value lives"));
    if (assignment.kind == BufferAssignment::Kind::Arena) {
      XYNTRA_TRY(assignment.slot, index("the number of a slot"));
    }
    const bool shared =
        assignment.kind == BufferAssignment::Kind::Input || assignment.kind == BufferAssignment::Kind::Output;
    if (assignment.kind == BufferAssignment::Kind::View || (shared && current_.is_word("of"))) {
      XYNTRA_CHECK_OK(keyword("of"));
      XYNTRA_TRY(assignment.of, value("a value"));
    }
    if (assignment.kind == BufferAssignment::Kind::View) {
      XYNTRA_CHECK_OK(keyword("at"));
      XYNTRA_TRY(assignment.offset, size());
    }
    plan().memory.assignments.push_back(std::move(assignment));
    return {};
  }

  Status slot() {
    Slot slot;
    XYNTRA_TRY(slot.bytes, size());
    XYNTRA_CHECK_OK(keyword("in"));
    XYNTRA_TRY(slot.first, index("the number of a group"));
    XYNTRA_CHECK_OK(expect("..", "between the first and the last group"));
    XYNTRA_TRY(slot.last, index("the number of a group"));
    XYNTRA_CHECK_OK(keyword("aligned"));
    XYNTRA_TRY(slot.alignment, natural("an alignment"));
    plan().memory.slots.push_back(std::move(slot));
    return {};
  }

  Status order() {
    XYNTRA_CHECK_OK(advance());
    XYNTRA_CHECK_OK(
        list("among the slots", plan().memory.order, [&] { return index("the number of a slot"); }));
    if (plan().memory.order.empty()) return error("the order before this is empty");
    section_ = "end";
    return {};
  }

  Plan& plan() { return lock_.plan; }

  Lock lock_;
  std::string_view section_ = "rule";  // the first that may come next
  std::int64_t records_ = 0;
};

}  // namespace

Result<Lock> parse_lock(std::string_view text) { return Reader(text).run(); }

}  // namespace xyntra
