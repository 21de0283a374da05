// xyntra ops: the operators, from the one table that defines them.
#include "cli/terminal.h"
#include "cli/verb.h"
#include "ir/text_literals.h"
#include "ops/op.h"
#include "support/json.h"
#include "support/table.h"
#include "support/text.h"
#include "support/unknown_name.h"

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

}  // namespace

VerbAction declare_ops(Flags& syntax, Session&) {
  auto name = std::make_shared<std::string>();
  syntax.push_back({"OP", name.get(), "only this operator"});
  return [name](Session& running) { return list_ops(*name, running); };
}

}  // namespace xyntra
