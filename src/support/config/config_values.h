// Reading single values of settings, from text and from TOML. For the config*.cpp files only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/config/config.h"

namespace xyntra {

struct ReadValue {
  SettingValue value;
  std::string shown;
};

// From the text of a flag, a variable or a default. Messages do not name the setting: the caller does.
Result<ReadValue> read_setting(const Setting& setting, std::string_view text);
// From a value that already has a type; checks bounds and choices.
Result<ReadValue> check_setting(const Setting& setting, SettingValue value);

struct FileValue {
  std::size_t setting;  // index in the table
  ReadValue read;
  std::uint32_t line;
};

Result<std::string> read_config_file(const std::string& path);
struct FileContents {
  std::vector<FileValue> values;
  std::vector<Record> records;
};
// All values of the file, or the first error in it as "file:line:column: …".
Result<FileContents> read_toml(std::string_view text, const std::string& file_name,
                               std::span<const Setting> settings, std::span<const RecordKind> records);

}  // namespace xyntra
