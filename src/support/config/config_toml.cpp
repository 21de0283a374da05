#include <algorithm>
#include <tuple>
#include <utility>

#include "support/config/config_values.h"
#include "support/text/text.h"

#ifndef TOML_EXCEPTIONS
#define TOML_EXCEPTIONS 0
#endif
#include <toml++/toml.h>

namespace xyntra {
namespace {

const char* type_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::none: return "nothing";
    case toml::node_type::table: return "a section";
    case toml::node_type::array: return "an array";
    case toml::node_type::string: return "a string";
    case toml::node_type::integer: return "an integer";
    case toml::node_type::floating_point: return "a float";
    case toml::node_type::boolean: return "a boolean";
    case toml::node_type::date: return "a date";
    case toml::node_type::time: return "a time";
    case toml::node_type::date_time: return "a date and time";
  }
  return "something else";
}

const char* wanted_name(SettingType type) {
  switch (type) {
    case SettingType::Boolean: return "true or false";
    case SettingType::Integer: return "an integer";
    case SettingType::Number: return "a number";
    case SettingType::Bytes: return "a size, such as 1048576 or \"4GB\"";
    case SettingType::Text: return "a string";
  }
  return "something else";
}

class TomlReader {
 public:
  TomlReader(const std::string& file_name, std::span<const Setting> settings,
             std::span<const RecordKind> records)
      : file_name_(file_name), settings_(settings), record_kinds_(records) {}

  // Every setting of the table; sections lie at most a few levels deep, since unknown ones are not entered.
  void read_section(const toml::table& table, const std::string& section) {
    for (const auto& [key, node] : table) {
      const std::string path =
          section.empty() ? std::string(key.str()) : section + "." + std::string(key.str());
      const auto known = std::ranges::find(settings_, path, &Setting::key);
      const auto kind = std::ranges::find(record_kinds_, path, &RecordKind::key);
      if (kind != record_kinds_.end()) {
        read_records(*kind, node);
        continue;
      }
      if (known != settings_.end()) {
        read_value(static_cast<std::size_t>(known - settings_.begin()), node);
      } else if (is_section(path)) {
        if (const toml::table* inner = node.as_table()) {
          read_section(*inner, path);
        } else {
          fail(node.source().begin, "'" + path + "' must be a section, but is " + type_name(node));
        }
      } else {
        const char* what = node.is_table() ? "unknown section '" : "unknown key '";
        // The place of the key itself, where toml++ knows it.
        const auto place = key.source().begin ? key.source().begin : node.source().begin;
        const std::vector<std::string> siblings = siblings_in(section);
        fail(place, what + path + "'; known here: " + joined(siblings, ", "), nearest(key.str(), siblings));
      }
    }
  }

  Result<FileContents> finish() && {
    if (first_error_) return failure(std::move(first_error_->second));
    return FileContents{std::move(values_), std::move(records_)};
  }

  void fail(toml::source_position place, const std::string& message, const std::string& hint = "") {
    const auto at = std::pair(place.line, place.column);
    if (first_error_ && first_error_->first <= at) return;
    Error error;
    error.error_class = ErrorClass::Usage;
    error.message =
        file_name_ + ":" + std::to_string(place.line) + ":" + std::to_string(place.column) + ": " + message;
    error.hint = hint;
    first_error_.emplace(at, std::move(error));
  }

 private:
  using Place = std::pair<toml::source_index, toml::source_index>;

  bool is_section(const std::string& path) const {
    return std::ranges::any_of(settings_,
                               [&](const Setting& known) { return known.key.starts_with(path + "."); });
  }

  static std::string nearest(std::string_view name, const std::vector<std::string>& known) {
    const auto near = nearest_word(name, known);
    return near ? "did you mean '" + *near + "'?" : "";
  }

  std::vector<std::string> siblings_in(const std::string& section) const {
    const std::string prefix = section.empty() ? "" : section + ".";
    std::vector<std::string> siblings;
    for (const Setting& known : settings_) {
      if (!known.key.starts_with(prefix)) continue;
      const std::string rest = known.key.substr(prefix.size());
      const std::string sibling = rest.substr(0, rest.find('.'));
      if (std::ranges::find(siblings, sibling) == siblings.end()) siblings.push_back(sibling);
    }
    if (section.empty()) {
      for (const RecordKind& kind : record_kinds_) siblings.push_back(kind.key);
    }
    return siblings;
  }

  void read_records(const RecordKind& kind, const toml::node& node) {
    const toml::array* list = node.as_array();
    if (list == nullptr) {
      fail(node.source().begin, "'" + kind.key + "' must be a list, written [[" + kind.key + "]]");
      return;
    }
    for (const toml::node& item : *list) {
      const toml::table* table = item.as_table();
      if (table == nullptr) {
        fail(item.source().begin,
             "'" + kind.key + "' must be a list of sections, written [[" + kind.key + "]]");
        continue;
      }
      read_record(kind, *table);
    }
  }

  void read_record(const RecordKind& kind, const toml::table& table) {
    std::vector<std::string> known = kind.required;
    known.insert(known.end(), kind.optional.begin(), kind.optional.end());
    Record record{kind.key, {}, file_name_ + ":" + std::to_string(table.source().begin.line)};
    bool misspelt = false;  // then what is missing may be just that
    for (const auto& [key, node] : table) {
      const std::string name(key.str());
      if (std::ranges::find(known, name) == known.end()) {
        misspelt = true;
        fail(key.source().begin ? key.source().begin : node.source().begin,
             "unknown key '" + name + "' in [[" + kind.key + "]]; known here: " + joined(known, ", "),
             nearest(name, known));
      } else if (const auto* text = node.as_string()) {
        record.fields[name] = text->get();
      } else {
        fail(node.source().begin, "'" + name + "' must be a string, not " + type_name(node));
      }
    }
    for (const std::string& name : kind.required) {
      if (!misspelt && !record.fields.contains(name))
        fail(table.source().begin, "'" + name + "' is missing in [[" + kind.key + "]]");
    }
    records_.push_back(std::move(record));
  }

  void read_value(std::size_t index, const toml::node& node) {
    const Setting& setting = settings_[index];
    auto read = converted(setting, node);
    if (!read) {
      fail(node.source().begin, "'" + setting.key + "': " + read.error().message, read.error().hint);
      return;
    }
    values_.push_back({index, std::move(*read), node.source().begin.line});
  }

  static Result<ReadValue> converted(const Setting& setting, const toml::node& node) {
    if (const auto* text = node.as_string()) {
      const bool is_keyword = !setting.keyword.empty() && text->get() == setting.keyword;
      if (setting.type == SettingType::Text || setting.type == SettingType::Bytes || is_keyword) {
        return read_setting(setting, text->get());
      }
    }
    const auto* integer = node.as_integer();
    if (integer != nullptr && (setting.type == SettingType::Integer || setting.type == SettingType::Bytes)) {
      return check_setting(setting, integer->get());
    }
    if (setting.type == SettingType::Number) {
      if (integer != nullptr) return check_setting(setting, static_cast<double>(integer->get()));
      if (const auto* real = node.as_floating_point()) return check_setting(setting, real->get());
    }
    if (const auto* flag = node.as_boolean(); flag != nullptr && setting.type == SettingType::Boolean) {
      return check_setting(setting, flag->get());
    }
    std::string wanted = wanted_name(setting.type);
    if (!setting.keyword.empty()) wanted += " or \"" + setting.keyword + "\"";
    return usage_error("it must be " + wanted + ", not " + type_name(node));
  }

  const std::string& file_name_;
  std::span<const Setting> settings_;
  std::span<const RecordKind> record_kinds_;
  std::vector<FileValue> values_;
  std::vector<Record> records_;
  std::optional<std::pair<Place, Error>> first_error_;
};

}  // namespace

Result<FileContents> read_toml(std::string_view text, const std::string& file_name,
                               std::span<const Setting> settings, std::span<const RecordKind> records) {
  TomlReader reader(file_name, settings, records);
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    reader.fail(parsed.error().source().begin, std::string(parsed.error().description()));
  } else {
    reader.read_section(parsed.table(), "");
  }
  return std::move(reader).finish();
}

}  // namespace xyntra
