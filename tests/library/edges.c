/* What callers of the C ABI get wrong, and results that outlive their model. usage: edges MODEL */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xyntra/xyntra.h>

static int failures = 0;

static void expect(const char* what, xyntra_status got, xyntra_status wanted) {
  if (got == wanted && (got == XYNTRA_OK || xyntra_last_message()[0] != '\0')) return;
  printf("%s: status %d, expected %d: %s\n", what, (int)got, (int)wanted, xyntra_last_message());
  ++failures;
}

static char* content_of(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  char* content = malloc(1 << 16);
  *size = file == NULL || content == NULL ? 0 : fread(content, 1, 1 << 16, file);
  if (file != NULL) fclose(file);
  return content;
}

static const float kX[6] = {1, 2, 3, 4, 5, 6};

static xyntra_tensor x_of(const int64_t* dims) {
  xyntra_tensor x = {sizeof x, "x", XYNTRA_F32, 2, dims, (void*)kX, sizeof kX};
  return x;
}

static void loading(const char* path) {
  xyntra_model* model = (xyntra_model*)&failures;
  expect("no path", xyntra_load(NULL, NULL, &model), XYNTRA_USAGE);
  if (model != NULL) expect("a model that failed is null", XYNTRA_OK, XYNTRA_USAGE);
  expect("nowhere to put it", xyntra_load(path, NULL, NULL), XYNTRA_USAGE);
  xyntra_options options = XYNTRA_INIT(xyntra_options);
  options.threads = -1;
  expect("negative threads", xyntra_load(path, &options, &model), XYNTRA_USAGE);
  options.threads = 1;
  options.dim_count = 1;
  expect("no dims", xyntra_load(path, &options, &model), XYNTRA_USAGE);
  const char* dims[] = {"rows=9223372036854775808", "rows=-1", "rows", "", "=", "rows=1e3"};
  for (size_t i = 0; i < sizeof dims / sizeof *dims; ++i) {
    options.dims = &dims[i];
    expect(dims[i], xyntra_load(path, &options, &model), XYNTRA_USAGE);
  }
  options.size = 0;
  expect("no size", xyntra_load(path, &options, &model), XYNTRA_USAGE);
  expect("no content", xyntra_load_bytes(NULL, 5, NULL, &model), XYNTRA_USAGE);
  expect("empty content", xyntra_load_bytes(NULL, 0, NULL, &model), XYNTRA_BAD_MODEL);
  expect("content of nothing", xyntra_load_bytes("\0\0\0\0\0", 5, NULL, &model), XYNTRA_BAD_MODEL);
  expect("content that is no archive", xyntra_load_bytes("PK\3\4", 4, NULL, &model), XYNTRA_BAD_MODEL);
}

static void running(xyntra_model* model) {
  const int64_t sound[] = {2, 3}, negative[] = {-2, -3}, huge[] = {INT64_MAX, INT64_MAX};
  const int64_t wrapped[] = {(int64_t)1 << 62, 16}, none[] = {0, 3};
  xyntra_result* result = NULL;
  xyntra_tensor x = x_of(sound);
  expect("no model", xyntra_run(NULL, &x, 1, &result), XYNTRA_USAGE);
  expect("nowhere to put it", xyntra_run(model, &x, 1, NULL), XYNTRA_USAGE);
  expect("no inputs", xyntra_run(model, NULL, 0, &result), XYNTRA_USAGE);
  expect("null inputs", xyntra_run(model, NULL, 1, &result), XYNTRA_USAGE);
  const int64_t* wrong[] = {negative, huge, wrapped, NULL};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    x = x_of(wrong[i]);
    expect("wrong dims", xyntra_run(model, &x, 1, &result), XYNTRA_USAGE);
  }
  x = x_of(sound);
  x.bytes = 4;
  expect("too few bytes", xyntra_run(model, &x, 1, &result), XYNTRA_USAGE);
  x = x_of(sound);
  x.data = NULL;
  expect("no data", xyntra_run(model, &x, 1, &result), XYNTRA_USAGE);
  x = x_of(sound);
  x.name = NULL;
  expect("no name", xyntra_run(model, &x, 1, &result), XYNTRA_USAGE);
  x = x_of(sound);
  const int dtypes[] = {0, 8, 14, 99, -1, 2147483647};
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; ++i) {
    memcpy(&x.dtype, &dtypes[i], sizeof x.dtype);
    expect("a dtype that there is not", xyntra_run(model, &x, 1, &result), XYNTRA_USAGE);
  }
  x = x_of(sound);
  x.rank = 3000000;
  x.dims = calloc(x.rank, sizeof *x.dims);
  expect("three million axes", xyntra_run(model, &x, 1, &result), XYNTRA_USAGE);
  free((void*)x.dims);
  xyntra_tensor twice[2] = {x_of(sound), x_of(sound)};
  expect("one input twice", xyntra_run(model, twice, 2, &result), XYNTRA_USAGE);
  x = x_of(none);
  x.bytes = 0;
  x.data = NULL;
  expect("no rows", xyntra_run(model, &x, 1, &result), XYNTRA_OK);
  xyntra_release_result(result);
  xyntra_value value = XYNTRA_INIT(xyntra_value);
  expect("an input that there is not", xyntra_input(model, SIZE_MAX, &value), XYNTRA_USAGE);
}

typedef struct job {
  xyntra_model* model;
  int wrong;
} job;

static void* work(void* given) {
  job* mine = given;
  const int64_t dims[] = {2, 3};
  for (int i = 0; i < 30; ++i) {
    xyntra_tensor x = x_of(dims), y = XYNTRA_INIT(xyntra_tensor);
    xyntra_result* result = NULL;
    if (xyntra_run(mine->model, &x, 1, &result) != XYNTRA_OK || xyntra_result_tensor(result, 0, &y) != XYNTRA_OK ||
        *(const float*)y.data != 4.5F)
      ++mine->wrong;
    xyntra_release_result(result);
  }
  return NULL;
}

/* Strings are ends and text in one block; whatever else is refused. */
static void strings(void) {
  static const char kModel[] =
      "xir 1\ngraph @main(%x: string[2]) -> (%y) {\n  %y: string[2] = StringConcat(%x, %x)\n}\n";
  struct {
    uint64_t ends[2];
    char text[8];
  } block = {{2, 3}, "abc"};
  const int64_t dims[] = {2};
  xyntra_model* model = NULL;
  xyntra_result* result = NULL;
  expect("a model of strings", xyntra_load_bytes(kModel, sizeof kModel - 1, NULL, &model), XYNTRA_OK);
  xyntra_tensor x = {sizeof x, "x", XYNTRA_STRING, 1, dims, &block, 16 + 3};
  expect("strings", xyntra_run(model, &x, 1, &result), XYNTRA_OK);
  xyntra_tensor y = XYNTRA_INIT(xyntra_tensor);
  expect("strings that were made", xyntra_result_tensor(result, 0, &y), XYNTRA_OK);
  const uint64_t ends[2] = {4, 6};
  if (y.dtype != XYNTRA_STRING || y.bytes != 16 + 6 || memcmp(y.data, ends, 16) != 0 ||
      memcmp((const char*)y.data + 16, "ababcc", 6) != 0)
    expect("the strings that were made", XYNTRA_OK, XYNTRA_USAGE);
  xyntra_release_result(result);
  expect("memory for strings", xyntra_run_into(model, &x, 1, &y, 1), XYNTRA_UNSUPPORTED);
  x.bytes = 16 + 2;
  expect("text that is too short", xyntra_run(model, &x, 1, &result), XYNTRA_USAGE);
  x.bytes = 8;
  expect("ends that are not there", xyntra_run(model, &x, 1, &result), XYNTRA_USAGE);
  x.bytes = 16 + 3;
  block.ends[0] = UINT64_MAX;
  expect("an end that is nowhere", xyntra_run(model, &x, 1, &result), XYNTRA_USAGE);
  block.ends[0] = 1;
  block.text[0] = (char)0xff;
  expect("no UTF-8", xyntra_run(model, &x, 1, &result), XYNTRA_USAGE);
  xyntra_release(model);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  loading(argv[1]);
  strings();
  size_t size = 0;
  char* content = content_of(argv[1], &size);
  xyntra_model* model = NULL;
  expect("the model's content", xyntra_load_bytes(content, size, NULL, &model), XYNTRA_OK);
  memset(content, 0, size);  /* it was copied */
  free(content);
  running(model);
  job jobs[3];
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) {
    jobs[i] = (job){model, 0};
    pthread_create(&threads[i], NULL, work, &jobs[i]);
  }
  for (int i = 0; i < 3; ++i) {
    pthread_join(threads[i], NULL);
    failures += jobs[i].wrong;
  }
  const int64_t dims[] = {2, 3};
  xyntra_tensor x = x_of(dims), y = XYNTRA_INIT(xyntra_tensor);
  xyntra_result* result = NULL;
  expect("a run", xyntra_run(model, &x, 1, &result), XYNTRA_OK);
  xyntra_release(model);
  expect("a result of a model that is gone", xyntra_result_tensor(result, 0, &y), XYNTRA_OK);
  if (strcmp(y.name, "y") != 0 || *(const float*)y.data != 4.5F) ++failures;
  xyntra_release_result(result);
  printf("%d failures\n", failures);
  return failures != 0;
}
