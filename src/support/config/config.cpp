#include "support/config/config.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <set>

#include "support/config/config_values.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

constexpr const char* kDefaultFile = "fusion.toml";

std::string environment_name(std::string_view key) {
  std::string name = "XYNTRA_";
  for (char letter : key) {
    const bool lower = letter >= 'a' && letter <= 'z';
    name += lower ? static_cast<char>(letter - 'a' + 'A') : letter == '.' ? '_' : letter;
  }
  return name;
}

void store(Config::Entry& entry, ReadValue read, Origin origin) {
  entry.value = std::move(read.value);
  entry.shown = std::move(read.shown);
  entry.origin = std::move(origin);
}

Config::Entry* find_entry(std::span<Config::Entry> entries, std::string_view key) {
  const auto found =
      std::ranges::find(entries, key, [](const Config::Entry& entry) { return entry.setting.key; });
  return found == entries.end() ? nullptr : &*found;
}

// A value from outside the file, with its source before the message.
Status set_from(Config::Entry& entry, std::string_view text, Origin origin) {
  auto value = read_setting(entry.setting, text);
  if (!value) {
    value.error().message = origin.place + ": " + value.error().message;
    return failure(std::move(value).error());
  }
  store(entry, std::move(*value), std::move(origin));
  return {};
}

}  // namespace

const std::string& Record::field(std::string_view name) const {
  static const std::string kNone;
  const auto found = fields.find(name);
  return found == fields.end() ? kNone : found->second;
}

Config::Config(std::vector<Setting> known, std::vector<RecordKind> records)
    : record_kinds_(std::move(records)) {
  std::set<std::string> keys;
  for (Setting& setting : known) {
    if (!keys.insert(setting.key).second) internal_error("Config: two settings '" + setting.key + "'");
    auto value = read_setting(setting, setting.default_text);
    if (!value) internal_error("Config: default of '" + setting.key + "': " + value.error().message);
    Entry entry;
    entry.setting = std::move(setting);
    store(entry, std::move(*value), Origin{});
    entries_.push_back(std::move(entry));
  }
}

Status Config::read_file(const std::string& path) {
  XYNTRA_TRY(const std::string text, read_config_file(path));
  return read_text(text, path);
}

Status Config::read_text(std::string_view toml, const std::string& file_name) {
  std::vector<Setting> settings;
  for (const Entry& entry : entries_) settings.push_back(entry.setting);
  XYNTRA_TRY(FileContents contents, read_toml(toml, file_name, settings, record_kinds_));
  records_ = std::move(contents.records);
  for (FileValue& value : contents.values) {
    Origin origin{Origin::Kind::File, file_name + ":" + std::to_string(value.line)};
    store(entries_[value.setting], std::move(value.read), std::move(origin));
  }
  file_ = file_name;
  return {};
}

Status Config::read_environment() {
  for (Entry& entry : entries_) {
    const std::string name = environment_name(entry.setting.key);
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) continue;
    XYNTRA_CHECK_OK(set_from(entry, value, Origin{Origin::Kind::Environment, name}));
  }
  return {};
}

Status Config::set_flag(std::string_view key, std::string_view value, const std::string& flag) {
  Entry* entry = find_entry(entries_, key);
  if (entry == nullptr) internal_error("Config: no setting '" + std::string(key) + "'");
  return set_from(*entry, value, Origin{Origin::Kind::Flag, flag});
}

const Config::Entry& Config::find(std::string_view key) const {
  const auto found = std::ranges::find(entries_, key, [](const Entry& entry) { return entry.setting.key; });
  if (found == entries_.end()) internal_error("Config: no setting '" + std::string(key) + "'");
  return *found;
}

namespace {

template <class T>
const T& value_as(const Config::Entry& entry) {
  const T* value = std::get_if<T>(&entry.value);
  if (value == nullptr) internal_error("Config: '" + entry.setting.key + "' is of another type");
  return *value;
}

}  // namespace

bool Config::boolean(std::string_view key) const { return value_as<bool>(find(key)); }
std::int64_t Config::integer(std::string_view key) const { return value_as<std::int64_t>(find(key)); }
double Config::number(std::string_view key) const { return value_as<double>(find(key)); }
const std::string& Config::text(std::string_view key) const { return value_as<std::string>(find(key)); }
const Origin& Config::origin(std::string_view key) const { return find(key).origin; }

std::vector<Record> Config::records(std::string_view key) const {
  std::vector<Record> found;
  std::ranges::copy_if(records_, std::back_inserter(found),
                       [&](const Record& record) { return record.key == key; });
  return found;
}

Result<Config> load_config(std::vector<Setting> known, const std::optional<std::string>& config_flag,
                           std::vector<RecordKind> records) {
  Config config(std::move(known), std::move(records));
  const char* named = std::getenv("XYNTRA_CONFIG");
  if (config_flag) {
    XYNTRA_CHECK_OK(config.read_file(*config_flag));
  } else if (named != nullptr && *named != '\0') {
    auto read = config.read_file(named);
    if (!read) return failure(std::move(read).error().with_hint("XYNTRA_CONFIG names this file"));
  } else if (std::error_code ignored; std::filesystem::exists(kDefaultFile, ignored)) {
    XYNTRA_CHECK_OK(config.read_file(kDefaultFile));
  }
  XYNTRA_CHECK_OK(config.read_environment());
  return config;
}

}  // namespace xyntra
