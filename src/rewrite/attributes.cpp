#include "rewrite/attributes.h"

#include "ir/text_literals.h"
#include "rewrite/keys.h"
#include "support/text/text.h"

namespace xyntra {
namespace {

void append_text(std::string& key, std::string_view text) {
  append_number(key, text.size());
  key += text;
}

// Unambiguous, not readable: kind, then length and content.
void append_key(std::string& key, const Attribute& attribute) {
  key += static_cast<char>('a' + attribute.index());
  if (const auto* integer = std::get_if<std::int64_t>(&attribute)) append_number(key, *integer);
  if (const auto* real = std::get_if<float>(&attribute)) append_number(key, *real);
  if (const auto* text = std::get_if<std::string>(&attribute)) append_text(key, *text);
  if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&attribute)) {
    append_number(key, integers->size());
    for (std::int64_t integer : *integers) append_number(key, integer);
  }
  if (const auto* reals = std::get_if<std::vector<float>>(&attribute)) {
    append_number(key, reals->size());
    for (float real : *reals) append_number(key, real);
  }
  if (const auto* texts = std::get_if<std::vector<std::string>>(&attribute)) {
    append_number(key, texts->size());
    for (const std::string& text : *texts) append_text(key, text);
  }
  if (const auto* tensor = std::get_if<Tensor>(&attribute)) key += tensor->content_hash();
  if (const auto* graph = std::get_if<std::shared_ptr<const Graph>>(&attribute)) {
    append_number(key, reinterpret_cast<std::uintptr_t>(graph->get()));
  }
  if (const auto* type = std::get_if<Type>(&attribute)) append_text(key, type->to_string());
}

template <class Item, class Text>
std::string list_text(const std::vector<Item>& items, Text text) {
  std::string joined = "[";
  for (const Item& item : items) joined += (joined.size() > 1 ? ", " : "") + text(item);
  return joined + "]";
}

}  // namespace

bool equal_attributes(const Attribute& a, const Attribute& b) {
  if (a.index() != b.index()) return false;
  std::string first, second;
  append_key(first, a);
  append_key(second, b);
  return first == second;
}

std::string to_text(const Attribute& attribute) {
  if (const auto* integer = std::get_if<std::int64_t>(&attribute)) return std::to_string(*integer);
  if (const auto* real = std::get_if<float>(&attribute)) return float_text(*real);
  if (const auto* text = std::get_if<std::string>(&attribute)) return quote(*text);
  if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&attribute)) {
    return list_text(*integers, [](std::int64_t integer) { return std::to_string(integer); });
  }
  if (const auto* reals = std::get_if<std::vector<float>>(&attribute)) return list_text(*reals, float_text);
  if (const auto* texts = std::get_if<std::vector<std::string>>(&attribute)) {
    return list_text(*texts, [](const std::string& text) { return quote(text); });
  }
  return std::string("a ") + attribute_kind(attribute);
}

AttributesId AttributeTable::intern(const OpDef* def, NodeForm form) {
  if (def != nullptr) {
    for (const AttributeSpec& spec : def->attributes) {
      auto found = form.attributes.find(spec.name);
      if (found == form.attributes.end() || !spec.default_value) continue;
      if (equal_attributes(found->second, *spec.default_value)) form.attributes.erase(found);
    }
  }
  std::string key;
  append_text(key, form.identity);
  append_number(key, form.outputs.size());
  for (bool wanted : form.outputs) key += wanted ? '1' : '0';
  for (const auto& [name, attribute] : form.attributes) {
    append_text(key, name);
    append_key(key, attribute);
  }
  auto [found, fresh] = ids_.try_emplace(std::move(key), AttributesId(forms_.size()));
  if (fresh) forms_.push_back(std::move(form));
  return found->second;
}

}  // namespace xyntra
