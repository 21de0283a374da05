#include "support/text/table.h"

#include <algorithm>

#include "support/result.h"
#include "support/text/text.h"
#include "support/text/utf8.h"

namespace xyntra {
namespace {

// The longest prefix that takes at most so many columns.
std::string_view prefix(std::string_view text, std::size_t columns) {
  std::size_t end = 0, width = 0;
  while (end < text.size()) {
    const auto character = first_character(text.substr(end));
    const std::size_t size = character ? character->size : 1;
    width += display_width(text.substr(end, size));
    if (width > columns) break;
    end += size;
  }
  return text.substr(0, end);
}

// The longest suffix that takes at most so many columns.
std::string_view suffix(std::string_view text, std::size_t columns) {
  std::size_t width = display_width(text);
  while (width > columns) {
    const auto character = first_character(text);
    const std::size_t size = character ? character->size : 1;
    width -= display_width(text.substr(0, size));
    text.remove_prefix(size);
  }
  return text;
}

constexpr std::size_t kGap = 2;  // between columns
// What is left of a column that gives way.
constexpr std::size_t kNarrowestName = 16;
constexpr std::size_t kNarrowestProse = 24;

std::vector<std::string> cell_lines(const std::string& cell, Table::Align align, std::size_t columns) {
  using enum Table::Align;
  if (align == Name) return {cut_in_middle(cell, columns)};
  if (align != Prose) return {cell};
  std::vector<std::string> lines;
  const std::string text = wrapped(cell, columns);
  for (std::string_view line : split(text, '\n')) lines.emplace_back(line);
  return lines;
}

}  // namespace

std::string cut_in_middle(std::string_view text, std::size_t columns) {
  if (display_width(text) <= columns) return std::string(text);
  if (columns == 0) return "";
  const std::size_t room = columns - 1;  // beside the ellipsis
  const std::size_t slash = text.rfind('/');
  if (slash != std::string_view::npos) {
    const std::string_view last = text.substr(slash);
    const std::size_t width = display_width(last);
    const std::string_view first = width < room ? prefix(text, room - width) : "";
    if (const std::size_t end = first.rfind('/'); end != std::string_view::npos && end > 0)
      return std::string(first.substr(0, end + 1)) + "…" + std::string(last);
  }
  return std::string(prefix(text, room - room / 2)) + "…" + std::string(suffix(text, room / 2));
}

std::string wrapped(std::string_view text, std::size_t columns, std::size_t indent) {
  std::string out;
  for (std::string_view paragraph : split(text, '\n')) {
    if (!out.empty()) out += "\n" + std::string(indent, ' ');
    // White space at its start is part of what it says.
    const std::size_t start = std::min(paragraph.find_first_not_of(' '), paragraph.size());
    std::size_t width = (out.empty() ? 0 : indent) + start;
    out += paragraph.substr(0, start);
    bool first = true;
    for (std::string_view word : split(paragraph.substr(start), ' ')) {
      const std::size_t word_width = display_width(word);
      if (!first && width + 1 + word_width > columns) {
        out.erase(out.find_last_not_of(' ') + 1);
        out += "\n" + std::string(indent, ' ');
        width = indent;
      } else if (!first) {
        out += ' ';
        ++width;
      }
      out += word;
      width += word_width;
      first = false;
    }
  }
  return out;
}

void Table::header(std::vector<std::string> cells) { header_ = std::move(cells); }

void Table::row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

std::vector<std::size_t> Table::widths(std::size_t width) const {
  std::vector<std::size_t> widths(columns_.size(), 0), narrowest(columns_.size(), 0);
  const auto widen = [&](const std::vector<std::string>& cells) {
    require(cells.size() <= columns_.size(), "Table: more cells than columns");
    for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], display_width(cells[i]));
  };
  widen(header_);
  for (const auto& cells : rows_) widen(cells);
  std::size_t all = columns_.empty() ? 0 : kGap * (columns_.size() - 1);
  for (std::size_t i = 0; i < widths.size(); ++i) {
    all += widths[i];
    const std::size_t title = i < header_.size() ? display_width(header_[i]) : 0;
    narrowest[i] = columns_[i] == Align::Prose  ? std::max(title, kNarrowestProse)
                   : columns_[i] == Align::Name ? std::max(title, kNarrowestName)
                                                : widths[i];
  }
  // Prose gives way before names do, and the widest column first.
  for (const Align align : {Align::Prose, Align::Name}) {
    while (all > width) {
      std::size_t widest = widths.size();
      for (std::size_t i = 0; i < widths.size(); ++i) {
        const bool gives = columns_[i] == align && widths[i] > narrowest[i];
        if (gives && (widest == widths.size() || widths[i] > widths[widest])) widest = i;
      }
      if (widest == widths.size()) break;
      --widths[widest];
      --all;
    }
  }
  return widths;
}

std::string Table::to_string(std::size_t width) const {
  const std::vector<std::size_t> widths = this->widths(width);
  std::string out;
  const auto print = [&](const std::vector<std::string>& cells) {
    std::vector<std::vector<std::string>> columns;
    std::size_t height = 1;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      columns.push_back(cell_lines(cells[i], columns_[i], widths[i]));
      height = std::max(height, columns.back().size());
    }
    for (std::size_t l = 0; l < height; ++l) {
      std::string line;
      for (std::size_t i = 0; i < columns.size(); ++i) {
        const std::string cell = l < columns[i].size() ? columns[i][l] : "";
        const std::size_t used = display_width(cell);
        const std::string padding(widths[i] > used ? widths[i] - used : 0, ' ');
        if (i > 0) line += std::string(kGap, ' ');
        line += columns_[i] == Align::Right ? padding + cell : cell + padding;
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + '\n';
    }
  };
  if (!header_.empty()) {
    print(header_);
    std::string rule;
    for (std::size_t i = 0; i < widths.size(); ++i)
      rule += (i > 0 ? std::string(kGap, ' ') : "") + std::string(widths[i], '-');
    out += rule + '\n';
  }
  for (const auto& cells : rows_) print(cells);
  return out;
}

}  // namespace xyntra
