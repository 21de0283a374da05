#include "support/text/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "support/error.h"
#include "support/text/utf8.h"

namespace xyntra {

// To the library's form and back.
struct JsonLibrary {
  using Form = nlohmann::ordered_json;

  static Form form_of(const Json& json) {
    return std::visit([](const auto& payload) { return form_of(payload); }, json.value_);
  }
  static Json json_of(const Form& form) {
    switch (form.type()) {
      case Form::value_t::boolean: return form.get<bool>();
      case Form::value_t::number_integer: return form.get<std::int64_t>();
      case Form::value_t::number_unsigned: return form.get<std::uint64_t>();
      case Form::value_t::number_float: return form.get<double>();
      case Form::value_t::string: return form.get_ref<const std::string&>();
      case Form::value_t::array: {
        Json::Array list;
        for (const Form& element : form) list.push_back(json_of(element));
        return Json(Json::Value(std::move(list)));
      }
      case Form::value_t::object: {
        Json::Object entries;
        for (const auto& [key, entry] : form.items()) entries.emplace_back(key, json_of(entry));
        return Json(Json::Value(std::move(entries)));
      }
      case Form::value_t::null:
      case Form::value_t::binary:
      case Form::value_t::discarded: break;
    }
    return {};
  }

 private:
  static Form form_of(std::monostate) { return nullptr; }
  static Form form_of(const Json::Array& list) {
    Form form = Form::array();
    for (const Json& element : list) form.push_back(form_of(element));
    return form;
  }
  static Form form_of(const Json::Object& entries) {
    Form form = Form::object();
    for (const auto& [key, entry] : entries) form.emplace(key, form_of(entry));
    return form;
  }
  template <typename Scalar>
  static Form form_of(const Scalar& scalar) {
    return Form(scalar);
  }
};

Json::Json() = default;
Json::~Json() = default;
Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(const Json& other) = default;
Json& Json::operator=(Json&& other) noexcept = default;

Json::Json(Value value) : value_(std::move(value)) {}
Json::Json(double number) : value_(number) {}
Json::Json(const char* text) : value_(std::string(text)) {}
Json::Json(std::string_view text) : value_(std::string(text)) {}
Json::Json(std::string text) : value_(std::move(text)) {}
Json::Json(const std::vector<std::string>& texts) : value_(Array(texts.begin(), texts.end())) {}
Json::Json(const std::vector<std::int64_t>& numbers) : value_(Array(numbers.begin(), numbers.end())) {}

Json::Json(std::initializer_list<Json> parts) {
  const auto is_entry = [](const Json& part) {
    return part.size() == 2 && !part.is_object() &&
           std::holds_alternative<std::string>(part.elements()[0].value_);
  };
  if (!std::all_of(parts.begin(), parts.end(), is_entry)) {
    value_ = Array(parts);
    return;
  }
  *this = object();
  for (const Json& part : parts)
    (*this)[std::get<std::string>(part.elements()[0].value_)] = part.elements()[1];
}

Json Json::array() { return Json(Value(Array{})); }
Json Json::object() { return Json(Value(Object{})); }

Json& Json::operator[](std::string_view key) {
  if (is_null()) *this = object();
  auto* entries = std::get_if<Object>(&value_);
  if (entries == nullptr) throw InternalError("a JSON value that is no object is asked for a key");
  const auto found =
      std::ranges::find(*entries, key, [](const auto& entry) { return std::string_view(entry.first); });
  if (found != entries->end()) return found->second;
  return entries->emplace_back(std::string(key), Json()).second;
}

void Json::push_back(Json element) {
  if (is_null()) *this = array();
  auto* list = std::get_if<Array>(&value_);
  if (list == nullptr) throw InternalError("an element is added to a JSON value that is no array");
  list->push_back(std::move(element));
}

void Json::update(Json other) {
  if (auto* entries = std::get_if<Object>(&other.value_)) {
    for (auto& [key, entry] : *entries) (*this)[key] = std::move(entry);
  }
}

const Json* Json::find(std::string_view key) const {
  const auto* entries = std::get_if<Object>(&value_);
  if (entries == nullptr) return nullptr;
  const auto found =
      std::ranges::find(*entries, key, [](const auto& entry) { return std::string_view(entry.first); });
  return found == entries->end() ? nullptr : &found->second;
}

const Json& Json::operator[](std::string_view key) const {
  const Json* entry = find(key);
  if (entry == nullptr) throw InternalError("a JSON value has no key '" + std::string(key) + "'");
  return *entry;
}

const Json& Json::operator[](std::size_t index) const {
  if (index >= elements().size()) throw InternalError("a JSON value has no element " + std::to_string(index));
  return elements()[index];
}

std::size_t Json::size() const {
  const auto* entries = std::get_if<Object>(&value_);
  return entries != nullptr ? entries->size() : elements().size();
}

const Json::Array& Json::elements() const {
  static const Array kNone;
  const auto* list = std::get_if<Array>(&value_);
  return list == nullptr ? kNone : *list;
}

std::optional<double> Json::number() const {
  if (const auto* real = std::get_if<double>(&value_)) return *real;
  if (const auto* whole = std::get_if<std::int64_t>(&value_)) return static_cast<double>(*whole);
  if (const auto* whole = std::get_if<std::uint64_t>(&value_)) return static_cast<double>(*whole);
  return std::nullopt;
}

namespace {

// \u009b for what could do harm where JSON is shown; the library escapes C0 and leaves the rest. Such a character can
// only be part of a text, since everything else of JSON is ASCII.
std::string escaped_for_terminals(const std::string& json) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  out.reserve(json.size());
  const auto append_unit = [&](char32_t unit) {
    out += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) out += kHex[unit >> shift & 15];
  };
  std::string_view rest = json;
  while (!rest.empty()) {
    const auto character = first_character(rest);
    const std::size_t size = character ? character->size : 1;
    if (!character || character->code_point < 0x7f || !is_unsafe_to_show(character->code_point)) {
      out += rest.substr(0, size);
    } else if (const char32_t code = character->code_point; code > 0xffff) {
      append_unit(0xd800 + ((code - 0x10000) >> 10));
      append_unit(0xdc00 + ((code - 0x10000) & 0x3ff));
    } else {
      append_unit(code);
    }
    rest.remove_prefix(size);
  }
  return out;
}

}  // namespace

std::string Json::dump(int indent) const {
  return escaped_for_terminals(
      JsonLibrary::form_of(*this).dump(indent, ' ', false, JsonLibrary::Form::error_handler_t::replace));
}

std::optional<Json> Json::parse(std::string_view text) {
  const auto form = JsonLibrary::Form::parse(text, nullptr, false);
  if (form.is_discarded()) return std::nullopt;
  return JsonLibrary::json_of(form);
}

}  // namespace xyntra
