/* Runs a model through the C ABI. */
#include <stdio.h>
#include <xyntra/xyntra.h>

static int fail(void) {
  fprintf(stderr, "%s\n", xyntra_last_message());
  return 1;
}

int main(int argc, char** argv) {
  xyntra_model* model = NULL;
  if (xyntra_load(argc > 1 ? argv[1] : "affine.xir", NULL, &model) != XYNTRA_OK) return fail();

  float values[] = {1, 2, 3, 4, 5, 6};
  int64_t dims[] = {2, 3};
  xyntra_tensor x = {sizeof x, "x", XYNTRA_F32, 2, dims, values, sizeof values};
  xyntra_result* result = NULL;
  if (xyntra_run(model, &x, 1, &result) != XYNTRA_OK) return fail();

  for (size_t i = 0; i < xyntra_result_count(result); ++i) {
    xyntra_tensor y = XYNTRA_INIT(xyntra_tensor);
    if (xyntra_result_tensor(result, i, &y) != XYNTRA_OK) return fail();
    printf("%s:", y.name);
    for (size_t e = 0; e < y.bytes / sizeof(float); ++e) printf(" %g", ((const float*)y.data)[e]);
    printf("\n");
  }
  xyntra_release_result(result);
  xyntra_release(model);
  return 0;
}
