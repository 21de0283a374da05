#include "support/config/config_values.h"

#include <algorithm>
#include <cmath>

#include "support/files/file.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

constexpr std::size_t kLargestFile = std::size_t{1} << 20;

struct Shown {
  const Setting& setting;

  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(std::int64_t value) const {
    return setting.type == SettingType::Bytes ? human_bytes(value) : std::to_string(value);
  }
  std::string operator()(double value) const {
    // Whole numbers the way people write them: 30, not 30.0.
    const std::string text = format_float(value);
    return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
  }
  std::string operator()(const std::string& value) const { return value; }
};

struct Magnitude {
  double operator()(bool) const { return 0; }
  double operator()(std::int64_t value) const { return static_cast<double>(value); }
  double operator()(double value) const { return value; }
  double operator()(const std::string&) const { return 0; }
};

std::string bounds_of(const Setting& setting) {
  const Shown shown{setting};
  if (std::isinf(setting.highest)) return "at least " + shown(setting.lowest);
  if (std::isinf(setting.lowest)) return "at most " + shown(setting.highest);
  return "between " + shown(setting.lowest) + " and " + shown(setting.highest);
}

Result<SettingValue> value_from(const Setting& setting, std::string_view text) {
  const auto fail = [&](const char* what) {
    return usage_error("'" + std::string(text) + "' is not " + what);
  };
  switch (setting.type) {
    case SettingType::Boolean:
      if (text == "true") return true;
      if (text == "false") return false;
      return fail("true or false");
    case SettingType::Integer:
      if (const auto value = parse_i64(text)) return *value;
      return fail("an integer");
    case SettingType::Number:
      if (const auto value = parse_f64(text); value && std::isfinite(*value)) return *value;
      return fail("a number");
    case SettingType::Bytes: {
      XYNTRA_TRY(const std::int64_t bytes, parse_bytes(text));
      return bytes;
    }
    case SettingType::Text: return std::string(text);
  }
  internal_error("value_from: unknown type of setting");
}

}  // namespace

Result<ReadValue> check_setting(const Setting& setting, SettingValue value) {
  const std::string shown = std::visit(Shown{setting}, value);
  const double magnitude = std::visit(Magnitude{}, value);
  const bool is_number = setting.type != SettingType::Text && setting.type != SettingType::Boolean;
  if (is_number && !(magnitude >= setting.lowest && magnitude <= setting.highest)) {
    return usage_error("it must be " + bounds_of(setting) + ", not " + shown);
  }
  if (!setting.choices.empty() && std::ranges::find(setting.choices, shown) == setting.choices.end()) {
    return usage_error("it must be one of " + joined(setting.choices, ", ") + ", not '" + shown + "'");
  }
  return ReadValue{std::move(value), shown};
}

Result<ReadValue> read_setting(const Setting& setting, std::string_view text) {
  if (!setting.keyword.empty() && text == setting.keyword) {
    // A value outside the bounds only marks the absence of one ("none"): not worth showing.
    const auto found = check_setting(setting, setting.keyword_value);
    return ReadValue{setting.keyword_value, setting.keyword + (found ? " (" + found->shown + ")" : "")};
  }
  XYNTRA_TRY(SettingValue value, value_from(setting, text));
  return check_setting(setting, std::move(value));
}

Result<std::string> read_config_file(const std::string& path) {
  XYNTRA_TRY(const auto file, MappedFile::open(path));
  if (file->bytes().size() > kLargestFile) {
    return limit_error("'" + path + "' has " + human_bytes(static_cast<std::int64_t>(file->bytes().size())) +
                       "; a configuration has at most " + human_bytes(kLargestFile));
  }
  return std::string(file->text());
}

}  // namespace xyntra
