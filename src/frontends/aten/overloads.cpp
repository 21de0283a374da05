#include "frontends/aten/overloads.h"

#include <algorithm>
#include <map>

#include "frontends/aten/translate.h"

namespace xyntra::aten {
namespace {

std::string_view without_overload(std::string_view name) { return name.substr(0, name.find('.')); }

std::vector<Overload> read_table() {
  std::vector<Overload> rows;
  const auto add = [&](const char* text, Item (*translate)(Call&), const char* function, const char* detail) {
    auto schema = parse_schema(text);
    if (!schema) internal_error(schema.error().message);
    const bool copies = without_overload(schema->name).ends_with("_copy");
    rows.push_back({std::move(*schema), text, translate, detail, function, copies});
  };
#define ATEN(schema, function, detail) add(schema, function, #function, detail);
#include "frontends/aten/aten.def"
#undef ATEN
  std::ranges::stable_sort(rows, {}, [](const Overload& row) { return row.schema.name; });
  for (std::size_t i = 1; i < rows.size(); ++i)
    require(rows[i - 1].schema.name != rows[i].schema.name, rows[i].text.c_str());
  return rows;
}

}  // namespace

std::span<const Overload> all_overloads() {
  static const std::vector<Overload> kRows = read_table();
  return kRows;
}

const Overload* find_overload(std::string_view name) {
  const auto rows = all_overloads();
  const auto found = std::ranges::lower_bound(
      rows, name, {}, [](const Overload& row) -> std::string_view { return row.schema.name; });
  return found == rows.end() || found->schema.name != name ? nullptr : &*found;
}

std::vector<const Overload*> overloads_named(std::string_view name) {
  static const auto kByName = [] {
    std::map<std::string_view, std::vector<const Overload*>> made;
    for (const Overload& row : all_overloads()) made[without_overload(row.schema.name)].push_back(&row);
    return made;
  }();
  const auto found = kByName.find(name);
  return found == kByName.end() ? std::vector<const Overload*>{} : found->second;
}

Target resolve_target(std::string_view target) {
  const auto candidates = [](std::string_view name) -> std::vector<const Overload*> {
    constexpr std::string_view kAny = ".*";
    if (name.ends_with(kAny)) return overloads_named(name.substr(0, name.size() - kAny.size()));
    if (const Overload* exact = find_overload(name)) return {exact};
    if (name.find('.') != std::string_view::npos) return {};
    return overloads_named(name);
  };
  if (Target found{candidates(target)}; !found.candidates.empty()) return found;
  const std::string_view base = without_overload(target);
  if (!base.ends_with("_") || base.ends_with("__")) return {};
  std::string functional(base.substr(0, base.size() - 1));
  functional += target.substr(base.size());
  return {candidates(functional), true};
}

}  // namespace xyntra::aten
