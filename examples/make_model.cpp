// Writes the bundled model: make_model examples/models/encoder.onnx
#include <cstdio>

#include "encoder_model.h"
#include "exporters/onnx.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_model FILE.onnx\n");
    return 2;
  }
  const auto written = xyntra::write_onnx(xyntra::examples::make_encoder(), argv[1]);
  if (written) return 0;
  std::fprintf(stderr, "error: %s\n", written.error().to_string().c_str());
  return 1;
}
