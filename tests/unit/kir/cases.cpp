#include "unit/kir/cases.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <span>
#include <sstream>

#include "types/float_formats.h"

namespace xyntra::kir {
namespace {

// Values that tell neighbours apart: small, of both signs, never zero, exact in bf16.
float value_at(std::size_t i) { return static_cast<float>(2 * static_cast<int>(i * 37 % 101) - 101) / 32.0F; }

std::vector<float> values(std::size_t count, std::size_t first = 0) {
  std::vector<float> made(count);
  for (std::size_t i = 0; i < count; ++i) made[i] = value_at(first + i);
  return made;
}

std::vector<std::uint16_t> narrowed(const std::vector<float>& wide) {
  std::vector<std::uint16_t> made;
  for (float value : wide) made.push_back(f32_to_bf16(value));
  return made;
}

std::string compare(const std::vector<float>& got, const std::vector<double>& wanted, double tolerance) {
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (std::abs(got[i] - wanted[i]) <= tolerance * (1 + std::abs(wanted[i]))) continue;
    return "element " + std::to_string(i) + " is " + std::to_string(got[i]) + ", not " +
           std::to_string(wanted[i]);
  }
  return "";
}

struct Gemm {
  std::size_t m, n, k;
  std::vector<float> a() const { return values(m * k); }
  std::vector<float> b() const { return values(k * n, 7); }  // [k, n]
  std::vector<double> c() const {
    std::vector<float> left = a(), right = b();
    std::vector<double> sums(m * n, 0.0);
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t p = 0; p < k; ++p) {
        for (std::size_t j = 0; j < n; ++j) {
          sums[i * n + j] += static_cast<double>(left[i * k + p]) * static_cast<double>(right[p * n + j]);
        }
      }
    }
    return sums;
  }
  SymbolBindings sizes() const {
    return {{"M", static_cast<std::int64_t>(m)},
            {"N", static_cast<std::int64_t>(n)},
            {"K", static_cast<std::int64_t>(k)}};
  }
  std::vector<float> transposed_b() const {
    std::vector<float> from = b(), made(from.size());
    for (std::size_t p = 0; p < k; ++p) {
      for (std::size_t j = 0; j < n; ++j) made[j * k + p] = from[p * n + j];
    }
    return made;
  }
  std::vector<float> paired_b() const {
    std::vector<float> from = b(), made(from.size());
    for (std::size_t p = 0; p < k; ++p) {
      for (std::size_t j = 0; j < n; ++j) made[p / 2 * 2 * n + 2 * j + p % 2] = from[p * n + j];
    }
    return made;
  }
};

Case gemm(const std::string& file, Gemm shape) {
  Case made;
  made.file = file;
  made.sizes = shape.sizes();
  made.arguments = [file, shape] {
    Arguments arguments;
    if (file == "gemm_amx") {
      arguments.add(narrowed(shape.a())).add(narrowed(shape.paired_b()));
    } else if (file == "gemm_warp_specialised" || file == "gemm_stream_k" ||
               file == "gemm_cluster_multicast") {
      arguments.add(narrowed(shape.a())).add(narrowed(shape.transposed_b()));
    } else if (file == "gemm_warpgroup_turned") {
      arguments.add(narrowed(shape.a())).add(narrowed(shape.b()));
    } else {
      arguments.add(shape.a()).add(shape.b());
    }
    return arguments.add(std::vector<float>(shape.m * shape.n));
  };
  made.wrong = [shape](const Arguments& arguments) {
    return compare(arguments.get<float>(2), shape.c(), 1e-5);
  };
  return made;
}

// Bytes that tell neighbours and signs apart, in panels of `columns` by `group` neighbours along the sum.
Case int8_gemm(const std::string& file, std::size_t m, std::size_t n, std::size_t k, std::size_t columns,
               std::size_t group) {
  const bool has_sign = file == "gemm_mmla_i8";  // the left matrix; the right one always has
  auto left = [has_sign](std::size_t i) {
    const auto byte = static_cast<std::uint8_t>(i * 37 + 11);
    return has_sign ? std::int32_t{static_cast<std::int8_t>(byte)} : std::int32_t{byte};
  };
  auto right = [](std::size_t i) { return std::int32_t{static_cast<std::int8_t>(i * 91 + 5)}; };
  Case made;
  made.file = file;
  made.sizes = Gemm{m, n, k}.sizes();
  made.arguments = [=] {
    std::vector<std::uint8_t> a(m * k), b(k * n);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<std::uint8_t>(left(i));
    for (std::size_t p = 0; p < k; ++p) {
      for (std::size_t j = 0; j < n; ++j) {
        const std::size_t line = (j / columns * (k / group) + p / group) * columns + j % columns;
        b[line * group + p % group] = static_cast<std::uint8_t>(right(p * n + j));
      }
    }
    return Arguments().add(a).add(b).add(std::vector<std::int32_t>(m * n));
  };
  made.wrong = [=](const Arguments& arguments) -> std::string {
    const auto got = arguments.get<std::int32_t>(2);
    for (std::size_t i = 0; i < got.size(); ++i) {
      std::int32_t sum = 0;
      for (std::size_t p = 0; p < k; ++p) sum += left(i / n * k + p) * right(p * n + i % n);
      if (got[i] != sum)
        return "element " + std::to_string(i) + " is " + std::to_string(got[i]) + ", not " +
               std::to_string(sum);
    }
    return "";
  };
  return made;
}

// The softmax of scores, in place.
void normalise_exponentials(std::span<double> scores) {
  double largest = scores[0], sum = 0;
  for (double score : scores) largest = std::max(largest, score);
  for (double& score : scores) sum += score = std::exp(score - largest);
  for (double& score : scores) score /= sum;
}

// Rows but the first have one element that is far above the others, the first, the last, or one between: whoever subtracts
// another maximum gets no finite number.
Case softmax(const std::string& file, std::size_t rows, std::size_t columns) {
  const auto x = [=] {
    constexpr float kFarAbove = 300;
    std::vector<float> made = values(rows * columns);
    for (std::size_t i = 1; i < rows; ++i)
      made[i * columns + (i == 1 ? 0 : i == 2 ? columns - 1 : i * 7 % columns)] += kFarAbove;
    return made;
  };
  Case made;
  made.file = file;
  made.sizes = {{"R", static_cast<std::int64_t>(rows)}, {"C", static_cast<std::int64_t>(columns)}};
  made.arguments = [=] { return Arguments().add(x()).add(std::vector<float>(rows * columns)); };
  made.wrong = [=](const Arguments& arguments) {
    const std::vector<float> given = x();
    std::vector<double> wanted(given.begin(), given.end());
    for (std::size_t i = 0; i < rows; ++i)
      normalise_exponentials(std::span(wanted).subspan(i * columns, columns));
    return compare(arguments.get<float>(1), wanted, 1e-6);
  };
  return made;
}

// With large queries one key of a row has all the weight, and a maximum that is not the row's gives no finite number; with small ones every
// key counts.
Case attention(std::size_t queries, std::size_t keys, float scale) {
  constexpr std::size_t kWidth = 64;
  const auto q = [=] {
    std::vector<float> made = values(queries * kWidth);
    for (float& one : made) one *= scale;
    return made;
  };
  Case made;
  made.file = "attention_warpgroup";
  made.sizes = {{"M", static_cast<std::int64_t>(queries)}, {"N", static_cast<std::int64_t>(keys)}};
  made.arguments = [=] {
    return Arguments()
        .add(narrowed(q()))
        .add(narrowed(values(keys * kWidth, 7)))
        .add(narrowed(values(keys * kWidth, 11)))
        .add(std::vector<float>(queries * kWidth));
  };
  made.wrong = [=](const Arguments& arguments) {
    const std::vector<float> query = q(), key = values(keys * kWidth, 7), value = values(keys * kWidth, 11);
    std::vector<double> wanted;
    for (std::size_t i = 0; i < queries; ++i) {
      std::vector<double> weights(keys, 0.0), row(kWidth, 0.0);
      for (std::size_t at = 0; at < keys * kWidth; ++at)
        weights[at / kWidth] += 0.125 * query[i * kWidth + at % kWidth] * key[at];
      normalise_exponentials(weights);
      for (std::size_t at = 0; at < keys * kWidth; ++at) row[at % kWidth] += weights[at / kWidth] * value[at];
      wanted.insert(wanted.end(), row.begin(), row.end());
    }
    return compare(arguments.get<float>(3), wanted, 2e-3);  // weights are rounded to bf16
  };
  return made;
}

Case normalise(std::size_t rows, std::size_t columns) {
  Case made;
  made.file = "normalise_rows";
  made.sizes = {{"R", static_cast<std::int64_t>(rows)}, {"C", static_cast<std::int64_t>(columns)}};
  made.arguments = [=] {
    return Arguments().add(values(rows * columns)).add(std::vector<float>(rows * columns));
  };
  made.wrong = [=](const Arguments& arguments) {
    std::vector<float> x = values(rows * columns);
    std::vector<double> wanted;
    const auto count = static_cast<double>(columns);
    for (std::size_t i = 0; i < rows; ++i) {
      double sum = 0, squares = 0;
      for (std::size_t j = 0; j < columns; ++j) sum += x[i * columns + j];
      for (std::size_t j = 0; j < columns; ++j) squares += std::pow(x[i * columns + j] - sum / count, 2);
      for (std::size_t j = 0; j < columns; ++j) {
        wanted.push_back((x[i * columns + j] - sum / count) / std::sqrt(squares / count + 1e-5));
      }
    }
    return compare(arguments.get<float>(1), wanted, 1e-5);
  };
  return made;
}

Case centre(std::size_t rows, std::size_t columns) {
  Case made;
  made.file = "centre_rows_cluster";
  made.sizes = {{"R", static_cast<std::int64_t>(rows)}, {"C", static_cast<std::int64_t>(columns)}};
  made.arguments = [=] {
    return Arguments().add(values(rows * columns)).add(std::vector<float>(rows * columns));
  };
  made.wrong = [=](const Arguments& arguments) {
    const std::vector<float> x = values(rows * columns);
    std::vector<double> wanted;
    for (std::size_t i = 0; i < rows; ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < columns; ++j) sum += x[i * columns + j];
      for (std::size_t j = 0; j < columns; ++j)
        wanted.push_back(x[i * columns + j] - sum / static_cast<double>(columns));
    }
    return compare(arguments.get<float>(1), wanted, 1e-5);
  };
  return made;
}

Case gelu(std::size_t count) {
  Case made;
  made.file = "gelu";
  made.sizes = {{"N", static_cast<std::int64_t>(count)}};
  made.arguments = [=] { return Arguments().add(values(count)).add(std::vector<float>(count)); };
  made.wrong = [=](const Arguments& arguments) {
    std::vector<double> wanted;
    for (float x : values(count)) wanted.push_back(0.5 * x * (1 + std::erf(x * std::sqrt(0.5))));
    return compare(arguments.get<float>(1), wanted, 1e-6);
  };
  return made;
}

Case gather(std::size_t rows) {
  constexpr std::size_t kVocabulary = 11, kColumns = 5;
  auto pick = [](std::size_t i) { return i * 7 % kVocabulary; };
  Case made;
  made.file = "gather_rows";
  made.sizes = {{"V", kVocabulary}, {"D", kColumns}, {"R", static_cast<std::int64_t>(rows)}};
  made.arguments = [=] {
    std::vector<std::int64_t> picks;
    for (std::size_t i = 0; i < rows; ++i) picks.push_back(static_cast<std::int64_t>(pick(i)));
    return Arguments()
        .add(values(kVocabulary * kColumns))
        .add(picks)
        .add(std::vector<float>(rows * kColumns));
  };
  made.wrong = [=](const Arguments& arguments) {
    std::vector<double> wanted;
    for (std::size_t i = 0; i < rows * kColumns; ++i) {
      wanted.push_back(value_at(pick(i / kColumns) * kColumns + i % kColumns));
    }
    return compare(arguments.get<float>(2), wanted, 0);
  };
  return made;
}

Case block_sum(std::size_t count) {
  Case made;
  made.file = "block_sum";
  made.sizes = {{"N", static_cast<std::int64_t>(count)}};
  made.arguments = [=] { return Arguments().add(values(count)).add(std::vector<float>(1)); };
  made.wrong = [=](const Arguments& arguments) {
    double sum = 0;
    for (float x : values(count)) sum += x;
    return compare(arguments.get<float>(1), {sum}, 1e-5);
  };
  return made;
}

Case histogram(std::size_t count) {
  constexpr std::int32_t kValues = 16;
  const auto value = [](std::size_t i) { return static_cast<std::int32_t>(i * 37 % 19) - 2; };
  Case made;
  made.file = "histogram";
  made.sizes = {{"N", static_cast<std::int64_t>(count)}};
  made.arguments = [=] {
    std::vector<std::int32_t> x(count);
    for (std::size_t i = 0; i < count; ++i) x[i] = value(i);
    return Arguments().add(x).add(std::vector<std::int32_t>(kValues)).add(std::vector<std::int32_t>(1));
  };
  made.wrong = [=](const Arguments& arguments) -> std::string {
    std::vector<std::int32_t> counts(kValues);
    std::int32_t largest = -1;
    for (std::size_t i = 0; i < count; ++i) {
      if (value(i) >= 0 && value(i) < kValues) ++counts[static_cast<std::size_t>(value(i))];
      largest = std::max(largest, value(i));
    }
    if (arguments.get<std::int32_t>(1) != counts) return "the counts are others";
    return arguments.get<std::int32_t>(2)[0] == largest ? "" : "the largest is another";
  };
  return made;
}

}  // namespace

const std::vector<Case>& cases() {
  static const std::vector<Case> kCases = {gemm("gemm_register_tile", {9, 70, 13}),
                                           gemm("gemm_register_tile", {8, 64, 16}),
                                           gemm("gemm_amx", {33, 65, 64}),
                                           gemm("gemm_amx", {32, 64, 32}),
                                           int8_gemm("gemm_amx_i8", 33, 65, 128, 65, 4),
                                           int8_gemm("gemm_amx_i8", 32, 64, 64, 64, 4),
                                           int8_gemm("gemm_dot4_i8", 5, 48, 24, 16, 4),
                                           int8_gemm("gemm_mmla_i8", 6, 10, 24, 2, 8),
                                           gemm("gemm_shared_tiles", {40, 37, 19}),
                                           gemm("gemm_shared_tiles", {32, 64, 16}),
                                           gemm("gemm_warp_specialised", {150, 52, 304}),
                                           gemm("gemm_warp_specialised", {128, 128, 192}),
                                           gemm("gemm_cluster_multicast", {150, 52, 304}),
                                           gemm("gemm_cluster_multicast", {128, 128, 192}),
                                           gemm("gemm_warpgroup_turned", {150, 128, 512}),
                                           gemm("gemm_warpgroup_turned", {128, 128, 512}),
                                           centre(3, 1100),
                                           centre(2, 512),
                                           normalise(5, 43),
                                           normalise(3, 16),
                                           softmax("softmax_rows", 5, 43),
                                           softmax("softmax_rows", 3, 16),
                                           softmax("softmax_by_warps", 5, 43),
                                           softmax("softmax_by_warps", 8, 64),
                                           gemm("gemm_stream_k", {30, 224, 256}),
                                           attention(70, 100, 0.125F),
                                           attention(64, 192, 256.0F),
                                           gelu(200),
                                           gelu(128),
                                           gather(9),
                                           block_sum(150),
                                           block_sum(128),
                                           histogram(150),
                                           histogram(128)};
  return kCases;
}

std::string kernel_text(const std::string& file) {
  std::ifstream stream(std::string(XYNTRA_SOURCE_DIR) + "/tests/kir/" + file + ".kir");
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

}  // namespace xyntra::kir
