#include "rewrite/rules/user_rules.h"

#include <algorithm>
#include <cctype>

#include "ops/op.h"
#include "rewrite/rules/check.h"
#include "rewrite/rules/rule_set.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

constexpr CheckOptions kChecks{.instances = 8, .attempts = 2000, .seed = 1};

Result<RuleText> rule_of(const Record& record) {
  RuleText rule;
  rule.name = record.field("name");
  rule.left = record.field("left");
  rule.right = record.field("right");
  rule.guard = record.field("guard");
  rule.example = record.field("example");
  rule.family = "user";
  rule.place = record.place;
  if (!record.field("class").empty()) {
    const auto named = rule_class_named(record.field("class"));
    if (!named) {
      return usage_error("rule " + quote(rule.name) + " (" + rule.place + "): there is no class '" +
                         record.field("class") + "': it is exact, reassociating or precision-changing");
    }
    rule.rule_class = *named;
  }
  return rule;
}

Status check_user_rule(const RuleText& text) {
  XYNTRA_TRY(const ParsedRule parsed, parse_rule(text));
  const RuleCheck check = check_rule(parsed, kChecks);
  if (check.failure.empty()) return {};
  Error error;
  error.error_class = ErrorClass::Usage;
  error.message = "rule " + quote(text.name) + " (" + text.place + "): ";
  if (check.instances == 0) {
    error.message += check.failure;
    error.hint = "give shapes on which it does: example = \"x[n,3] w[3,m]\"";
    return failure(std::move(error));
  }
  const std::size_t end = check.failure.find('\n');  // the graphs that show it follow
  error.message += "it is not " + std::string(name_of(text.rule_class)) + ": " + check.failure.substr(0, end);
  if (end != std::string::npos)
    error.hint = "an instance of it, its left side first:\n" +
                 std::string(trimmed(std::string_view(check.failure).substr(end)));
  return failure(std::move(error));
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool is_step(const std::string& name) {
  if (name == "bias") return true;
  return std::ranges::any_of(all_ops(), [&](const OpDef& op) {
    const std::string known = lower(op.name);
    return known == name || known == "com.microsoft." + name;
  });
}

}  // namespace

Result<RewriteOptions> rewrite_options_of(const Config& config) {
  RewriteOptions options;
  options.enabled = config.boolean("rewrite.enabled");
  options.fold_limit = config.integer("limits.folded_constant");
  const std::string& forbidden = config.text("rewrite.forbid");
  options.allow_reassociating = forbidden != "reassociating";
  options.allow_precision_changing = forbidden == "none";
  for (const Record& record : config.records("rules")) {
    XYNTRA_TRY(RuleText rule, rule_of(record));
    const ParsedRule* same = RuleSet::built_in().find(rule.name);
    const auto other = std::ranges::find(options.user_rules, rule.name, &RuleText::name);
    if (same != nullptr || other != options.user_rules.end()) {
      return usage_error("rule " + quote(rule.name) + " (" + rule.place +
                         "): there is one of this name already (" +
                         (same != nullptr ? same->text.place : other->place) + ")");
    }
    XYNTRA_CHECK_OK(check_user_rule(rule));
    options.user_rules.push_back(std::move(rule));
  }
  return options;
}

Result<std::vector<UserPattern>> user_patterns_of(const Config& config) {
  std::vector<UserPattern> patterns;
  for (const Record& record : config.records("patterns")) {
    UserPattern pattern{record.field("name"), {}, record.place};
    std::string_view rest = record.field("ops");
    while (true) {
      const std::size_t arrow = rest.find("->");
      pattern.ops.emplace_back(trimmed(rest.substr(0, arrow)));
      if (!is_step(pattern.ops.back())) {
        std::vector<std::string> names;
        for (const OpDef& op : all_ops()) names.push_back(lower(op.name));
        const auto nearest = nearest_word(pattern.ops.back(), names);
        Error error;
        error.error_class = ErrorClass::Usage;
        error.message = "pattern " + quote(pattern.name) + " (" + pattern.place + "): '" +
                        pattern.ops.back() + "' is no operator; write them as matmul -> bias -> gelu";
        error.hint = nearest ? "did you mean '" + *nearest + "'?" : "xyntra ops lists them";
        return failure(std::move(error));
      }
      if (arrow == rest.npos) break;
      rest = rest.substr(arrow + 2);
    }
    patterns.push_back(std::move(pattern));
  }
  return patterns;
}

}  // namespace xyntra
