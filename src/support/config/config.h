// Configuration: a table of known settings, and their values with where each came from.
//
// Later sources win: default, file, environment, flag. A file is TOML; an unknown key or a wrong type is an error
// that points at it:
//
//     fusion.toml:4:1: unknown key 'limits.max_memroy'
//       hint: did you mean 'max_memory'?
//
// What the settings are is not known here: see types/settings.h.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "support/result.h"

namespace xyntra {

enum class SettingType : std::uint8_t {
  Boolean,
  Integer,
  Number,  // integer or float
  Bytes,  // integer, or text such as "4GB"
  Text,
};

using SettingValue = std::variant<bool, std::int64_t, double, std::string>;

struct Setting {
  std::string key;  // "limits.max_memory": section and name
  SettingType type = SettingType::Text;
  std::string default_text;  // read like a flag's value
  std::string help;
  double lowest = -std::numeric_limits<double>::infinity();
  double highest = std::numeric_limits<double>::infinity();
  std::vector<std::string> choices = {};  // of a Text; empty: any
  // A word that stands for a value found on this machine, such as "auto" for all its threads.
  std::string keyword = {};
  SettingValue keyword_value = {};
};

struct Origin {
  enum class Kind : std::uint8_t { Default, File, Environment, Flag };
  Kind kind = Kind::Default;
  std::string place;  // "fusion.toml:4", "XYNTRA_RUN_THREADS", "--threads"

  std::string to_string() const { return kind == Kind::Default ? "default" : place; }
};

// A list of records in a file, each a table of texts:
//
//     [[rules]]
//     name = "halve"
struct RecordKind {
  std::string key;  // "rules"
  std::vector<std::string> required;  // fields that each record has
  std::vector<std::string> optional;
};
struct Record {
  std::string key;
  std::map<std::string, std::string, std::less<>> fields;
  std::string place;  // "fusion.toml:4"

  const std::string& field(std::string_view name) const;  // empty when it was not given
};

class Config {
 public:
  // Broken tables (two settings of one name, a default that is not valid) are internal errors.
  explicit Config(std::vector<Setting> known, std::vector<RecordKind> records = {});

  // The whole file or nothing of it.
  Status read_file(const std::string& path);
  Status read_text(std::string_view toml, const std::string& file_name);
  // XYNTRA_<SECTION>_<NAME> for every setting: XYNTRA_LIMITS_MAX_MEMORY.
  Status read_environment();
  // A flag's value: `flag` ("--max-memory") is for messages and as the origin.
  Status set_flag(std::string_view key, std::string_view value, const std::string& flag);

  // An unknown key or another type is an internal error.
  bool boolean(std::string_view key) const;
  std::int64_t integer(std::string_view key) const;  // Integer and Bytes
  double number(std::string_view key) const;
  const std::string& text(std::string_view key) const;
  const Origin& origin(std::string_view key) const;

  // All of it, in the order of the table.
  struct Entry {
    Setting setting;
    SettingValue value;
    std::string shown;  // as a person would write it: "4 GiB", "auto (2)"
    Origin origin;
  };
  std::span<const Entry> entries() const { return entries_; }
  const std::optional<std::string>& file() const { return file_; }  // the file that was read
  std::vector<Record> records(std::string_view key) const;  // of the file, in its order

 private:
  const Entry& find(std::string_view key) const;

  std::vector<Entry> entries_;
  std::vector<RecordKind> record_kinds_;
  std::vector<Record> records_;
  std::optional<std::string> file_;
};

// Defaults, then the file, then the environment. The file is `config_flag` (of --config) where given, else what
// XYNTRA_CONFIG names, else ./fusion.toml where there is one.
Result<Config> load_config(std::vector<Setting> known, const std::optional<std::string>& config_flag,
                           std::vector<RecordKind> records = {});

}  // namespace xyntra
