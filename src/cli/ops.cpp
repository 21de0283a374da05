// xyntra ops: the operators, from the one table that defines them.
#include "cli/terminal.h"
#include "cli/verb.h"
#include "frontends/aten/overloads.h"
#include "ir/text_literals.h"
#include "ops/op.h"
#include "support/text/json.h"
#include "support/text/table.h"
#include "support/text/text.h"
#include "support/text/unknown_name.h"

namespace xyntra {
namespace {

std::string default_text(const Attribute& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return std::to_string(*whole);
  if (const auto* real = std::get_if<float>(&value)) return float_text(*real);
  if (const auto* text = std::get_if<std::string>(&value)) return quote(*text);
  return "…";
}

std::string attributes_text(const OpDef& op) {
  std::string text;
  for (const AttributeSpec& attribute : op.attributes) {
    text += (text.empty() ? "" : ", ") + attribute.name + ":" + attribute.kind;
    if (attribute.default_value)
      text += "=" + default_text(*attribute.default_value);
    else if (!attribute.required)
      text += "?";
  }
  return text;
}

Json to_json(const OpDef& op) {
  Json json{{"name", op.name},
            {"signature", op.signature},
            {"definition", op.formula != nullptr ? "formula" : "host"}};
  json["attributes"] = Json::array();
  for (const AttributeSpec& attribute : op.attributes) {
    Json entry{{"name", attribute.name}, {"kind", attribute.kind}, {"required", attribute.required}};
    if (attribute.default_value) entry["default"] = default_text(*attribute.default_value);
    json["attributes"].push_back(std::move(entry));
  }
  return json;
}

Result<ExitCode> list_ops(const std::string& name, Session& session) {
  std::vector<const OpDef*> ops;
  std::vector<std::string> names;
  for (const OpDef& op : all_ops()) {
    names.push_back(op.name);
    if (name.empty() || op.name == name) ops.push_back(&op);
  }
  if (ops.empty()) {
    return failure(unknown_name("operator", name, names, "xyntra ops"));
  }
  if (session.json) {
    Json json{{"count", ops.size()}, {"ops", Json::array()}};
    for (const OpDef* op : ops) json["ops"].push_back(to_json(*op));
    session.out = json.dump(1) + "\n";
    return ExitCode::Done;
  }
  using enum Table::Align;
  Table table({Left, Left, Prose, Prose});
  table.header({"operator", "by", "signature", "attributes"});
  for (const OpDef* op : ops) {
    table.row({op->name, op->formula != nullptr ? "formula" : "host", op->signature, attributes_text(*op)});
  }
  session.out =
      table.to_string(stdout_width()) + (name.empty() ? std::to_string(ops.size()) + " operators\n" : "");
  return ExitCode::Done;
}

// The overloads of ATen that are imported: all, one, or all of a name ("aten::add").
Result<ExitCode> list_overloads(const std::string& name, Session& session) {
  std::vector<const aten::Overload*> rows;
  std::vector<std::string> names;
  for (const aten::Overload& row : aten::all_overloads()) {
    names.push_back(row.schema.name);
    const bool same_name = row.schema.name.starts_with(name + ".");
    if (name.empty() || row.schema.name == name || same_name) rows.push_back(&row);
  }
  if (rows.empty()) return failure(unknown_name("overload", name, names, "xyntra ops --dialect aten"));
  if (session.json) {
    Json json{{"count", rows.size()}, {"overloads", Json::array()}};
    for (const aten::Overload* row : rows)
      json["overloads"].push_back({{"name", row->schema.name}, {"schema", row->text}});
    session.out = json.dump(1) + "\n";
    return ExitCode::Done;
  }
  for (const aten::Overload* row : rows) session.out += row->text + "\n";
  if (name.empty()) session.out += std::to_string(rows.size()) + " overloads\n";
  return ExitCode::Done;
}

}  // namespace

VerbAction declare_ops(Flags& syntax, Session&) {
  struct Arguments {
    std::string name, dialect = "xyntra";
  };
  auto given = std::make_shared<Arguments>();
  syntax.push_back({"OP", &given->name, "only this operator"});
  syntax.push_back(
      {"--dialect", &given->dialect,
       "xyntra: the operators of graphs; aten: the overloads that .pt2 and .pt files are read by", "NAME",
       Flag::Defaulted});
  return [given](Session& running) -> Result<ExitCode> {
    if (given->dialect == "aten") return list_overloads(given->name, running);
    if (given->dialect == "xyntra") return list_ops(given->name, running);
    const std::vector<std::string> dialects{"xyntra", "aten"};
    return failure(unknown_name("dialect", given->dialect, dialects, "xyntra ops --help"));
  };
}

}  // namespace xyntra
