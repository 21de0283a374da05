// Measures every math definition: all 2^32 floats for f32, samples for f64 and pow. Prints a table.
// Usage: math_sweep [--stride N] [--samples N] [function...]; --stride N visits every Nth float.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>

#include "math/block_evaluator.h"
#include "math/math_functions.h"

namespace xyntra::te::testing {
namespace {

constexpr std::uint64_t kLanes = BlockEvaluator::kLanes;

struct Worst {
  double ulps = 0;
  double x = 0;
  double y = 0;
  void see(const Worst& other) {
    if (other.ulps > ulps) *this = other;
  }
};

template <class T>
constexpr DType kDType = std::is_same_v<T, float> ? DType::F32 : DType::F64;

// Each thread measures its share of the blocks and is seeded with its number.
template <class Measure>
Worst on_all_threads(Measure measure) {
  unsigned threads = std::max(1U, std::thread::hardware_concurrency());
  std::vector<Worst> found(threads);
  std::vector<std::thread> running;
  for (unsigned t = 0; t < threads; ++t) {
    running.emplace_back([&, t] { found[t] = measure(t, threads); });
  }
  Worst worst;
  for (unsigned t = 0; t < threads; ++t) {
    running[t].join();
    worst.see(found[t]);
  }
  return worst;
}

template <class T>
void measure_block(const MathFunction<T>& function, BlockEvaluator& evaluator,
                   const BlockEvaluator::Lanes<T>& arguments, Worst& worst) {
  const auto& results = evaluator.run<T>({&arguments});
  for (std::size_t i = 0; i < kLanes; ++i) {
    Wide<T> exact = function.exact(arguments[i]);
    // Correctly rounded results, by far the most, need no closer look.
    if (results[i] == static_cast<T>(exact) && results[i] != 0 && worst.ulps > 0.5) continue;
    worst.see({distance<T>(function, results[i], exact), static_cast<double>(arguments[i])});
  }
}

// Every float whose bits are a multiple of the stride.
Worst measure_floats(const MathFunction<float>& function, std::uint64_t stride) {
  return on_all_threads([&](unsigned thread, unsigned threads) {
    BlockEvaluator evaluator(function.formula(argument(0, DType::F32)));
    BlockEvaluator::Lanes<float> arguments;
    Worst worst;
    for (std::uint64_t first = thread * kLanes; first * stride < std::uint64_t{1} << 32;
         first += threads * kLanes) {
      for (std::uint64_t i = 0; i < kLanes; ++i) {
        arguments[i] = std::bit_cast<float>(static_cast<std::uint32_t>((first + i) * stride));
      }
      measure_block(function, evaluator, arguments, worst);
    }
    return worst;
  });
}

// Half of the samples have any bits, half have ordinary sizes.
template <class T>
T sample(std::mt19937_64& random) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  std::uint64_t bits = random();
  if (bits & 1) return std::bit_cast<T>(static_cast<Bits>(random()));
  double size = std::ldexp(1.0, static_cast<int>(bits >> 1 & 31) - 22);
  return static_cast<T>(size * std::uniform_real_distribution<double>(-1, 1)(random));
}

Worst measure_samples(const MathFunction<double>& function, std::uint64_t samples) {
  return on_all_threads([&](unsigned thread, unsigned threads) {
    BlockEvaluator evaluator(function.formula(argument(0, DType::F64)));
    BlockEvaluator::Lanes<double> arguments;
    std::mt19937_64 random(thread);
    Worst worst;
    for (std::uint64_t done = 0; done < samples / threads; done += kLanes) {
      for (double& x : arguments) x = sample<double>(random);
      measure_block(function, evaluator, arguments, worst);
    }
    return worst;
  });
}

template <class T>
Expr pow_formula() {
  return expand(ExprOp::Pow, {argument(0, kDType<T>), argument(1, kDType<T>)});
}

// Half of the exponents are chosen so that results of every size occur; of the others some are integers.
template <class T>
Worst measure_pow(std::uint64_t samples) {
  return on_all_threads([&](unsigned thread, unsigned threads) {
    BlockEvaluator evaluator(pow_formula<T>());
    BlockEvaluator::Lanes<T> bases, exponents;
    std::mt19937_64 random(thread);
    std::uniform_real_distribution<double> logarithm(-1.2 * std::numeric_limits<T>::max_exponent,
                                                     1.2 * std::numeric_limits<T>::max_exponent);
    Worst worst;
    for (std::uint64_t done = 0; done < samples / threads; done += kLanes) {
      for (std::size_t i = 0; i < kLanes; ++i) {
        bases[i] = sample<T>(random);
        exponents[i] = i % 8 == 1 ? std::round(sample<T>(random)) : sample<T>(random);
        if (i % 2 == 1) continue;
        bases[i] = std::fabs(bases[i]);
        exponents[i] = static_cast<T>(logarithm(random) / std::log2(static_cast<double>(bases[i])));
      }
      const auto& results = evaluator.run<T>({&bases, &exponents});
      for (std::size_t i = 0; i < kLanes; ++i) {
        Wide<T> exact = std::pow(static_cast<Wide<T>>(bases[i]), static_cast<Wide<T>>(exponents[i]));
        worst.see({ulps_between<T>(results[i], exact), static_cast<double>(bases[i]),
                   static_cast<double>(exponents[i])});
      }
    }
    return worst;
  });
}

int sweep(const std::vector<std::string>& words) {
  std::uint64_t stride = 1, samples = 50'000'000;
  std::vector<std::string> wanted;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--stride" && i + 1 < words.size()) {
      stride = std::stoull(words[++i]);
    } else if (words[i] == "--samples" && i + 1 < words.size()) {
      samples = std::stoull(words[++i]);
    } else {
      wanted.push_back(words[i]);
    }
  }
  auto is_wanted = [&](const std::string& name) {
    return wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end();
  };
  std::printf("| function | f32 ulps | at | operations | f64 ulps | at | operations |\n");
  std::printf("| --- | --- | --- | --- | --- | --- | --- |\n");
  auto print = [](const char* name, const Worst& f32, const Expr& formula32, const Worst& f64,
                  const Expr& formula64) {
    std::printf("| %s | %.3f | %.9g | %zu | %.3f | %.17g | %zu |\n", name, f32.ulps, f32.x,
                BlockEvaluator(formula32).operations(), f64.ulps, f64.x,
                BlockEvaluator(formula64).operations());
    std::fflush(stdout);
  };
  std::vector<MathFunction<float>> singles = math_functions<float>();
  std::vector<MathFunction<double>> doubles = math_functions<double>();
  for (std::size_t f = 0; f < singles.size(); ++f) {
    if (!is_wanted(singles[f].name)) continue;
    Worst f32 = measure_floats(singles[f], stride);
    Worst f64 = measure_samples(doubles[f], samples);
    print(singles[f].name, f32, singles[f].formula(argument(0, DType::F32)), f64,
          doubles[f].formula(argument(0, DType::F64)));
  }
  if (is_wanted("pow")) {
    Worst f32 = measure_pow<float>(samples * 4), f64 = measure_pow<double>(samples);
    print("pow", f32, pow_formula<float>(), f64, pow_formula<double>());
    std::printf("\nThe exponents of pow's worst cases: f32 %.9g, f64 %.17g.\n", f32.y, f64.y);
  }
  return 0;
}

}  // namespace
}  // namespace xyntra::te::testing

int main(int count, char** words) {
  return xyntra::te::testing::sweep(std::vector<std::string>(words + 1, words + count));
}
