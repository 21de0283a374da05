// Runs a model through the C++ API: once with results of the library's, once into memory of our own.
#include <iostream>
#include <xyntra/xyntra.hpp>

int main(int argc, char** argv) try {
  xyntra::Model model(argc > 1 ? argv[1] : "affine.xir", {.threads = 1, .dims = {"rows=2"}});
  for (const xyntra::ValueInfo& input : model.inputs()) {
    std::cout << input.name << " [";
    for (std::size_t i = 0; i < input.dims.size(); ++i) std::cout << (i > 0 ? ", " : "") << input.symbols[i];
    std::cout << "]\n";
  }

  const std::vector<float> x{1, 2, 3, 4, 5, 6};
  const std::vector inputs{xyntra::input<float>("x", {2, 3}, x)};
  const xyntra::Result result = model.run(inputs);
  for (const float value : result["y"].values<float>()) std::cout << value << ' ';
  std::cout << '\n';

  std::vector<float> largest(2);
  const std::vector outputs{xyntra::output<float>("largest", {2, 1}, largest)};
  model.run_into(inputs, outputs);
  std::cout << largest[0] << ' ' << largest[1] << '\n';

  try {
    model.run({xyntra::input<float>("z", {2, 3}, x)});
  } catch (const xyntra::Failure& failure) {
    std::cout << failure.status() << ": " << failure.what() << '\n';
  }
} catch (const xyntra::Failure& failure) {
  std::cerr << failure.what() << '\n';
  return 1;
}
