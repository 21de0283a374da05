// xyntra rules: the rewrite rules, what they claim, and whether that holds.
#include <algorithm>
#include <map>

#include "cli/terminal.h"
#include "cli/verb.h"
#include "rewrite/rules/check.h"
#include "rewrite/rules/rule_set.h"
#include "support/text/json.h"
#include "support/text/table.h"
#include "support/text/text.h"
#include "support/text/unknown_name.h"

namespace xyntra {
namespace {

struct RulesFlags {
  std::string name;
  int instances = 4;  // enough to see that each rule holds, in about a second; the tests take more
};

struct Row {
  const ParsedRule* rule;
  std::optional<RuleCheck> check;
};

Json to_json(const Row& row) {
  const RuleText& text = row.rule->text;
  Json json{{"name", text.name}, {"family", text.family}, {"class", name_of(text.rule_class)},
            {"left", text.left}, {"right", text.right},   {"guard", text.guard}};
  if (row.check) {
    json["instances"] = row.check->instances;
    json["comparisons"] = row.check->comparisons;
    json["holds"] = row.check->failure.empty();
  }
  return json;
}

std::string table_of(const std::vector<Row>& rows) {
  using enum Table::Align;
  std::vector<Table::Align> columns{Left, Left, Left, Prose};
  const bool checked = rows.front().check.has_value();
  if (checked) columns.push_back(Right);
  Table table(columns);
  std::vector<std::string> header{"rule", "family", "class", "left => right"};
  if (checked) header.emplace_back("checks");
  table.header(header);
  std::map<RuleClass, std::size_t> counts;
  for (const Row& row : rows) {
    const RuleText& text = row.rule->text;
    ++counts[text.rule_class];
    std::string sides = text.left + " => " + text.right;
    if (!text.guard.empty()) sides += "  when " + text.guard;
    std::vector<std::string> cells{text.name, text.family, name_of(text.rule_class), sides};
    if (checked) cells.push_back(std::to_string(row.check->comparisons));
    table.row(cells);
  }
  std::string text =
      table.to_string(stdout_width()) + std::to_string(rows.size()) + (rows.size() == 1 ? " rule" : " rules");
  for (const auto& [rule_class, count] : counts)
    text += ", " + std::to_string(count) + " " + name_of(rule_class);
  return text + "\n";
}

Result<ExitCode> list_rules(const RulesFlags& flags, Session& session) {
  std::vector<Row> rows;
  std::vector<std::string> names;
  for (const ParsedRule& rule : RuleSet::built_in().rules()) {
    names.push_back(rule.text.name);
    if (std::ranges::find(names, rule.text.family) == names.end()) names.push_back(rule.text.family);
    if (flags.name.empty() || rule.text.name == flags.name || rule.text.family == flags.name)
      rows.push_back({&rule, {}});
  }
  if (rows.empty()) {
    return failure(unknown_name("rule or family", flags.name, names, "xyntra rules"));
  }
  std::string failures;
  const auto budget = session.budget();
  for (Row& row : rows) {
    if (flags.instances == 0) break;
    XYNTRA_CHECK_OK(budget->check_time());
    CheckOptions options;
    options.instances = flags.instances;
    row.check = check_rule(*row.rule, options);
    if (!row.check->failure.empty()) failures += row.rule->text.name + ": " + row.check->failure + "\n";
  }
  if (session.json) {
    Json json{{"count", rows.size()}, {"rules", Json::array()}};
    for (const Row& row : rows) json["rules"].push_back(to_json(row));
    session.out = json.dump(1) + "\n";
  } else {
    session.out = table_of(rows) + failures;
  }
  return failures.empty() ? ExitCode::Done : ExitCode::No;
}

}  // namespace

VerbAction declare_rules(Flags& syntax, Session&) {
  auto flags = std::make_shared<RulesFlags>();
  syntax.push_back({"RULE", &flags->name, "only this rule, or the rules of this family"});
  syntax.push_back({"--instances", &flags->instances,
                    "random instances on which each rule is checked; 0: only list them", "N", Flag::Defaulted,
                    Flag::Range{0, 100'000}});
  return [flags](Session& running) { return list_rules(*flags, running); };
}

}  // namespace xyntra
