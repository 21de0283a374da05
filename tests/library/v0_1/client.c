/* A program made for version 0.1 of the C ABI: xyntra.h beside it is the header of that version and never changes. It uses
 * every function and struct, and must run with every later library of the same soname. */
#include "xyntra.h"

#include <stdio.h>
#include <string.h>

#define CHECK(call)                                                              \
  if ((call) != XYNTRA_OK) {                                                     \
    fprintf(stderr, "line %d: %s\n", __LINE__, xyntra_last_message());           \
    return 1;                                                                    \
  }
#define EXPECT(condition)                                                        \
  if (!(condition)) {                                                            \
    fprintf(stderr, "line %d: %s does not hold\n", __LINE__, #condition);        \
    return 1;                                                                    \
  }

static int runs(const char* path) {
  const char* dims_of_costs[] = {"rows=2"};
  xyntra_options options = {.size = sizeof options, .backend = "cpu", .threads = 1, .dims = dims_of_costs, .dim_count = 1};
  xyntra_model* model = NULL;
  CHECK(xyntra_load(path, &options, &model));
  const char* text = NULL;
  CHECK(xyntra_explain(model, &text));
  EXPECT(strlen(text) > 0);

  EXPECT(xyntra_input_count(model) == 1 && xyntra_output_count(model) == 2);
  xyntra_value value = XYNTRA_INIT(xyntra_value);
  CHECK(xyntra_input(model, 0, &value));
  EXPECT(strcmp(value.name, "x") == 0 && value.dtype == XYNTRA_F32 && value.has_shape && value.rank == 2);
  EXPECT(value.dims[0] == -1 && value.dims[1] == 3 && strcmp(value.symbols[0], "rows") == 0);
  CHECK(xyntra_output(model, 1, &value));
  EXPECT(strcmp(value.name, "largest") == 0);

  float x[] = {1, 2, 3, 4, 5, 6}, y[4] = {0}, largest[2] = {0};
  int64_t x_dims[] = {2, 3}, y_dims[] = {2, 2}, largest_dims[] = {2, 1};
  xyntra_tensor input = {sizeof input, "x", XYNTRA_F32, 2, x_dims, x, sizeof x};
  xyntra_result* result = NULL;
  CHECK(xyntra_run(model, &input, 1, &result));
  EXPECT(xyntra_result_count(result) == 2);
  xyntra_tensor tensor = XYNTRA_INIT(xyntra_tensor);
  CHECK(xyntra_result_tensor(result, 0, &tensor));
  EXPECT(strcmp(tensor.name, "y") == 0 && tensor.rank == 2 && tensor.bytes == sizeof y && ((float*)tensor.data)[3] == 10.5F);
  xyntra_release_result(result);

  xyntra_tensor outputs[] = {{sizeof input, "largest", XYNTRA_F32, 2, largest_dims, largest, sizeof largest},
                             {sizeof input, "y", XYNTRA_F32, 2, y_dims, y, sizeof y}};
  CHECK(xyntra_run_into(model, &input, 1, outputs, 2));
  EXPECT(y[0] == 4.5F && largest[1] == 10.5F);

  input.name = "z";
  EXPECT(xyntra_run(model, &input, 1, &result) == XYNTRA_USAGE && strlen(xyntra_last_message()) > 0);
  xyntra_counts counts = XYNTRA_INIT(xyntra_counts);
  CHECK(xyntra_count(model, &counts));
  EXPECT(counts.runs == 2 && counts.copies == 0);
  xyntra_release(model);
  return 0;
}

static int decodes(const char* path) {
  const char* donated[] = {"past"};
  xyntra_options options = {.size = sizeof options, .donated = donated, .donated_count = 1};
  xyntra_model* model = NULL;
  CHECK(xyntra_load(path, &options, &model));
  EXPECT(xyntra_extension_count(model) == 1);
  xyntra_extension extension = XYNTRA_INIT(xyntra_extension);
  CHECK(xyntra_extension_at(model, 0, &extension));
  EXPECT(strcmp(extension.input, "past") == 0 && strcmp(extension.output, "present") == 0 && extension.axis == 2);

  float token[8] = {1, 1, 1, 1, 1, 1, 1, 1}, cache[2 * 3 * 4] = {0};
  int64_t token_dims[] = {1, 2, 1, 4}, cache_dims[] = {1, 2, 3, 4};
  xyntra_tensor input = {sizeof input, "token", XYNTRA_F32, 4, token_dims, token, sizeof token};
  xyntra_tensor memory = {sizeof memory, "past", XYNTRA_F32, 4, cache_dims, cache, sizeof cache};
  xyntra_donation past = {.size = sizeof past, .memory = &memory};
  for (int step = 0; step < 4; ++step) {
    xyntra_result* result = NULL;
    CHECK(xyntra_run_donating(model, &input, 1, &past, 1, &result));
    EXPECT(past.in_place == (step < 3) && past.length == (step < 3 ? step + 1 : 3));
    past.unchanged = 1;
    xyntra_release_result(result);
  }
  xyntra_counts counts = XYNTRA_INIT(xyntra_counts);
  CHECK(xyntra_count(model, &counts));
  EXPECT(counts.copies == 1 && counts.compiles <= 1);
  xyntra_release(model);
  return 0;
}

/* usage: client AFFINE.xir CACHE.xir SCRATCH.xyn */
int main(int argc, char** argv) {
  EXPECT(argc == 4);
  const char* cpus[] = {"native"};
  CHECK(xyntra_compile(argv[1], argv[3], NULL, cpus, 1));
  if (runs(argv[1]) || runs(argv[3]) || decodes(argv[2])) return 1;
  printf("made for %d.%d\n", XYNTRA_VERSION_MAJOR, XYNTRA_VERSION_MINOR);
  return 0;
}
