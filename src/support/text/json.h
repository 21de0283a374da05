// JSON to print and to read: a value made of what C++ has for it.
//
//     Json json{{"model", path}, {"groups", Json::array()}};
//     for (const Group& group : groups) json["groups"].push_back({{"id", group.id}, {"ops", group.ops}});
//     out = json.dump(1) + "\n";
//
// The library that writes and reads it costs seconds in every file that sees it, so only json.cpp does.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace xyntra {

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;  // in the order in which the keys were set

  Json();  // null
  ~Json();
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;

  // NOLINTBEGIN(google-explicit-constructor): every value is JSON
  Json(double number);
  Json(const char* text);
  Json(std::string_view text);
  Json(std::string text);
  Json(const std::vector<std::string>& texts);
  Json(const std::vector<std::int64_t>& numbers);
  template <std::same_as<bool> Truth>  // so that no pointer becomes a truth
  Json(Truth truth) : Json(Value(truth)) {}
  template <std::integral Whole>
    requires(!std::same_as<Whole, bool>)
  Json(Whole number) : Json(whole(number)) {}
  template <typename Mapped, typename Compare>
  Json(const std::map<std::string, Mapped, Compare>& entries) : Json(object()) {
    for (const auto& [key, entry] : entries) (*this)[key] = entry;
  }
  // An object where every part is a pair that begins with a text; else an array.
  Json(std::initializer_list<Json> parts);
  // NOLINTEND(google-explicit-constructor)
  static Json array();
  static Json object();

  Json& operator[](std::string_view key);  // of an object; null becomes one
  void push_back(Json element);            // to an array; null becomes one
  void update(Json other);                 // sets every key of another object

  const Json* find(std::string_view key) const;  // null where this is no object, or has no such key
  const Json& operator[](std::string_view key) const;  // InternalError where there is none
  const Json& operator[](std::size_t index) const;
  std::size_t size() const;  // of an array or object; 0 for everything else
  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }
  std::optional<double> number() const;
  const Array& elements() const;  // empty where this is no array

  // Bytes that are not UTF-8 are replaced, as JSON cannot say them.
  std::string dump(int indent) const;
  static std::optional<Json> parse(std::string_view text);
  bool operator==(const Json& other) const = default;

 private:
  using Value =
      std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object>;
  explicit Json(Value value);
  // One way to hold each number, so that equal ones compare equal: u64 holds only what i64 cannot.
  static Value whole(std::integral auto number) {
    if (std::in_range<std::int64_t>(number)) return static_cast<std::int64_t>(number);
    return static_cast<std::uint64_t>(number);
  }

  friend struct JsonLibrary;
  Value value_;
};

}  // namespace xyntra
